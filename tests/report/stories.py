"""A story with everything in it."""

import io

from PIL import Image

from privet.report import Bar, Curve, Fact, Figure, Measure, Privacy, Samples, Story

NASTY = '<script>alert("x")</script> & "quotes"'


def png(colour=200):
    file = io.BytesIO()
    Image.new("L", (60, 20), colour).save(file, "PNG")
    return file.getvalue()


def story(name="a run", **changes):
    privacy = Privacy(
        private=True,
        guarantee="ε = 1 at δ = 1e-05 (add or remove one example, PLD)",
        statement="Whatever anyone learns, they could have learned almost as well.",
        events=("1 × Gaussian release (σ = 3.731)",),
        facts=(Fact("ε", "1"), Fact("δ", "1e-05"), Fact("relation", "add or remove one example")),
        public=("the layout of the data",),
        budget=(Bar("this run", 0.25, "ε = 1"), Bar("left", 0.8, "ε ≤ 3.2", own=False)),
        budget_note="What was reserved of the owner's budget.",
    )
    accuracy = Curve(
        title="Test accuracy",
        across="step",
        up="accuracy",
        lines={"Test accuracy": ((1, 0.5), (50, 0.8), (100, 0.9))},
        percent=True,
    )
    parts = {
        "name": name,
        "title": "A private synthetic data set",
        "lead": "60 images.",
        "figures": (Figure("ε = 1", "was spent", "at δ = 1e-05"),),
        "privacy": privacy,
        "samples": (
            Samples(name="cats", png=png(), count=3, total=30, width=60, height=20),
            Samples(name="dogs", png=None, count=0, total=0),
        ),
        "curves": (accuracy,),
        "classes": (Bar("cats", 0.75, "75.0%"), Bar("dogs", None, "no images")),
        "classes_note": "Accuracy on 10 images.",
        "measures": (
            Measure(
                name="CAS",
                value="75.0%",
                better="higher",
                span="0 to 100%",
                meaning="What a CNN learns.",
                on="10 images",
            ),
        ),
        "settings": (Fact("clip_norm", "1.0"),),
        "versions": (Fact("run by", "Privet 0"),),
        "command": "privet synthesize digits",
    }
    return Story(**(parts | changes))
