"""`python -m privet`."""

from privet.cli import main

main()
