"""Published systems, each composed from the rooms in a short file, and what they share."""

from typing import TYPE_CHECKING

from privet.on_use import on_use

if TYPE_CHECKING:
    from privet.recipes.class_means import private_class_means
    from privet.recipes.map_moments import SpsG, sps_g
    from privet.recipes.mean_embeddings import dp_mepf, dp_merf
    from privet.recipes.mean_settings import DpMepf, DpMerf
    from privet.recipes.methods import adadps, dope, dp_mix, dp_sgd, mirror, weight_multiplicity
    from privet.recipes.position_moments import sps, sps_plus
    from privet.recipes.private_encoders import PrivatelyTrained, private_encoder
    from privet.recipes.public_ddpm import PublicDdpm, ddpm
    from privet.recipes.public_edm import PublicEdm, edm
    from privet.recipes.sps_settings import Sps, SpsPlus
    from privet.recipes.table_embeddings import TableMerf, table_merf
    from privet.recipes.training import TrainedModel, private_training
    from privet.recipes.training_config import Material, TrainingConfig

__all__ = [
    "DpMepf",
    "DpMerf",
    "Material",
    "PrivatelyTrained",
    "PublicDdpm",
    "PublicEdm",
    "Sps",
    "SpsG",
    "SpsPlus",
    "TableMerf",
    "TrainedModel",
    "TrainingConfig",
    "adadps",
    "ddpm",
    "dope",
    "dp_mepf",
    "dp_merf",
    "dp_mix",
    "dp_sgd",
    "edm",
    "mirror",
    "private_class_means",
    "private_encoder",
    "private_training",
    "sps",
    "sps_g",
    "sps_plus",
    "table_merf",
    "weight_multiplicity",
]

__getattr__, __dir__ = on_use(
    __name__,
    {
        "class_means": ("private_class_means",),
        "map_moments": ("SpsG", "sps_g"),
        "mean_embeddings": ("dp_mepf", "dp_merf"),
        "mean_settings": ("DpMepf", "DpMerf"),
        "methods": ("adadps", "dope", "dp_mix", "dp_sgd", "mirror", "weight_multiplicity"),
        "position_moments": ("sps", "sps_plus"),
        "private_encoders": ("PrivatelyTrained", "private_encoder"),
        "public_ddpm": ("PublicDdpm", "ddpm"),
        "public_edm": ("PublicEdm", "edm"),
        "sps_settings": ("Sps", "SpsPlus"),
        "table_embeddings": ("TableMerf", "table_merf"),
        "training": ("TrainedModel", "private_training"),
        "training_config": ("Material", "TrainingConfig"),
    },
)
