"""How fast a device is said to be, and the times that follow from it."""

from __future__ import annotations

from typing import NamedTuple

from proxy_views.profile.errors import DeviceError


class _Rates(NamedTuple):
    tflops: float
    gigabytes_per_s: float


class Device(_Rates):
    """A device by its rates, to compute times from.

    Attributes:
        tflops: 10**12 floating-point operations a second.
        gigabytes_per_s: 10**9 bytes a second, between processes.
    """

    __slots__ = ()

    def __new__(cls, tflops: float, gigabytes_per_s: float) -> Device:
        """A device of these rates.

        Raises:
            DeviceError: if one of them is not a positive number.
        """
        for name, rate in (("tflops", tflops), ("gigabytes_per_s", gigabytes_per_s)):
            if not rate > 0:
                raise DeviceError(name, rate)
        return super().__new__(cls, tflops, gigabytes_per_s)

    def seconds(self, flops: int, communicated_bytes: int) -> float:
        """How long that many operations take, and after them that many bytes of collectives."""
        return flops / (self.tflops * 1e12) + communicated_bytes / (self.gigabytes_per_s * 1e9)
