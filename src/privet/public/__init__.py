"""What is learned from public data alone."""

from privet.public.fractal import fractal_noise
from privet.public.head import final_linear, warm_up_body
from privet.public.rows import PublicRows
from privet.public.warm_up import EpochRecord, WarmUp, warm_up

__all__ = [
    "EpochRecord",
    "PublicRows",
    "WarmUp",
    "final_linear",
    "fractal_noise",
    "warm_up",
    "warm_up_body",
]
