"""The nominal rates of a device, and times computed from them."""

from __future__ import annotations

from typing import NamedTuple

from proxy_views.profile.errors import DeviceError


class _Rates(NamedTuple):
    tflops: float
    gigabytes_per_s: float


class Device(_Rates):
    """A device, given by its rates.

    Attributes:
        tflops: 10**12 floating-point operations per second.
        gigabytes_per_s: 10**9 bytes per second, between processes.
    """

    __slots__ = ()

    def __new__(cls, tflops: float, gigabytes_per_s: float) -> Device:
        """A device with these rates.

        Raises:
            DeviceError: if a rate is not a positive number.
        """
        for name, rate in (("tflops", tflops), ("gigabytes_per_s", gigabytes_per_s)):
            if not rate > 0:
                raise DeviceError(name, rate)
        return super().__new__(cls, tflops, gigabytes_per_s)

    def seconds(self, flops: int, communicated_bytes: int) -> float:
        """The time for that many operations, followed by that many bytes of collectives."""
        return flops / (self.tflops * 1e12) + communicated_bytes / (self.gigabytes_per_s * 1e9)
