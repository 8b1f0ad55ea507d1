"""Entry point of `python -m privet`."""

from privet.cli import main

main()
