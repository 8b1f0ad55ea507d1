"""What is learned from public data alone."""

from privet.public.ddpm import Ancestral, Ddpm
from privet.public.diffusion import DiffusionTraining, train_at_noise_levels
from privet.public.edm import Edm, Heun
from privet.public.glyphs import glyph_rows
from privet.public.head import final_linear, warm_up_body
from privet.public.procedural import fractal_noise, procedural_rows
from privet.public.rows import PublicRows
from privet.public.warm_up import EpochRecord, WarmUp, warm_up

__all__ = [
    "Ancestral",
    "Ddpm",
    "DiffusionTraining",
    "Edm",
    "EpochRecord",
    "Heun",
    "PublicRows",
    "WarmUp",
    "final_linear",
    "fractal_noise",
    "glyph_rows",
    "procedural_rows",
    "train_at_noise_levels",
    "warm_up",
    "warm_up_body",
]
