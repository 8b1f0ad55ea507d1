"""Everything Privet raises on purpose.

::

    PrivetError                 exit code 1
    ├── ConfigError             2   a setting is out of range or contradicts another
    ├── PrivacyError            3   going on would break, or could not prove, the guarantee
    │   ├── BudgetExceeded      3   the ledger has less left than was asked for
    │   └── LedgerError         3   the ledger cannot be trusted, read or written
    ├── DataError               4   what was read is not what a data set should be
    └── Stopped               130   Ctrl-C or SIGTERM; what was done is saved

A message is one sentence that names the value and the remedy.
"""


class PrivetError(Exception):
    """Root of all errors that Privet raises on purpose."""

    exit_code = 1


class ConfigError(PrivetError):
    """A setting is out of range or contradicts another."""

    exit_code = 2


class PrivacyError(PrivetError):
    """Going on would break, or could not prove, the guarantee."""

    exit_code = 3


class BudgetExceeded(PrivacyError):  # noqa: N818 - it is a verdict, not a malfunction
    """The ledger has less left than was asked for."""


class LedgerError(PrivacyError):
    """The ledger cannot be trusted, read or written."""


class DataError(PrivetError):
    """What was read is not what a data set should be."""

    exit_code = 4


class Stopped(PrivetError):  # noqa: N818 - someone's wish, not a malfunction
    """The run was stopped, by a person or by the machine; whatever was paid for is saved."""

    exit_code = 130
