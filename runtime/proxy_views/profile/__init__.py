"""The cost of a run: FLOPs, memory and time of each module and operation. Uses no other view."""

from proxy_views.profile.device import Device
from proxy_views.profile.flop_count import flop_count
from proxy_views.profile.flop_totals import FlopTotals
from proxy_views.profile.plain_functions import register_flop_impl, register_shape_impl
from proxy_views.profile.profiler import Profiler
from proxy_views.profile.report import Profile
from proxy_views.profile.rows import ProfileRow

__all__ = [
    "Device",
    "FlopTotals",
    "Profile",
    "ProfileRow",
    "Profiler",
    "flop_count",
    "register_flop_impl",
    "register_shape_impl",
]
