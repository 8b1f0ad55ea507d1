"""Pages in a real browser, if there is one: no complaints, and pictures that can be seen."""

import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from privet.report import comparison, page
from tests.report.stories import story

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium; 'make browser' gets it")

GREY = 200  # of the story's picture
CARD = {"light": (251, 251, 249), "dark": (20, 24, 22)}


@pytest.fixture
def looked_at(tmp_path):
    """A page's picture, and what the browser had to say about it."""

    def look(text, *, width=1000, scheme="light"):
        path, picture = tmp_path / "page.html", tmp_path / "page.png"
        path.write_text(text, encoding="utf-8")
        command = [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}"),
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            *(f"--window-size={width},2400", f"--screenshot={picture}", path.as_uri()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return np.asarray(Image.open(picture).convert("RGB")), complaints

    return look


@pytest.mark.parametrize("width", [1000, 500])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_seen_without_complaints(looked_at, width, scheme):
    pixels, complaints = looked_at(page(story()), width=width, scheme=scheme)
    assert complaints == []
    assert tuple(pixels[2, 2]) == CARD[scheme]
    assert (pixels == GREY).all(2).sum() > 1000  # the samples


def test_a_comparison_is_seen_without_complaints(looked_at):
    pixels, complaints = looked_at(comparison([story("first"), story("second")]))
    assert complaints == []
    assert (pixels == GREY).all(2).sum() > 2000


def test_complaints_would_be_noticed(looked_at):
    _, complaints = looked_at(page(story()).replace("</main>", "<script>1</script></main>"))
    assert any("Content Security Policy" in each for each in complaints)
