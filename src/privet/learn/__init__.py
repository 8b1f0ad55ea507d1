"""Equation 1: private gradients, the engines that take them and the loop around them."""

from privet.learn.engine import Engine, EngineName, EnginePlan
from privet.learn.equation import Equation, Method, State
from privet.learn.gradients import PerUnitGradients, PrivateGradient, PublicGradient
from privet.learn.keys import Keys
from privet.learn.masking import MaskedWords
from privet.learn.origins import LastPrivate, NoOrigin, PublicOrigin
from privet.learn.perturbations import Ascent, RandomDirections, Unperturbed
from privet.learn.scales import PublicMoments, Unscaled
from privet.learn.training import Course, Progress, train
from privet.learn.updates import SGD, Adam, Mirror
from privet.learn.views import AsIs, Augmented, Mixed

__all__ = [
    "SGD",
    "Adam",
    "AsIs",
    "Ascent",
    "Augmented",
    "Course",
    "Engine",
    "EngineName",
    "EnginePlan",
    "Equation",
    "Keys",
    "LastPrivate",
    "MaskedWords",
    "Method",
    "Mirror",
    "Mixed",
    "NoOrigin",
    "PerUnitGradients",
    "PrivateGradient",
    "Progress",
    "PublicGradient",
    "PublicMoments",
    "PublicOrigin",
    "RandomDirections",
    "State",
    "Unperturbed",
    "Unscaled",
    "train",
]
