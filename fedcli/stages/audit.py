"""The audit stage: how much of its patients a finished run gives away."""

from ..data import shared_patients
from ..errors import UsageError
from ..reporting.table import ReportTable
from ..scores.audit.audited import audit as audit_run
from ..scores.evaluation_options import AuditOptions
from .call import called_with, source
from .results import Result


class Audit(Result):
    """Leaks of a run about its patients."""

    kind = "audit"

    def tables(self) -> list[ReportTable]:
        """Membership by client and group, the hospital of an image, and images from a gradient."""
        from ..reporting.page import leakage  # jinja2 and pandas

        noun = shared_patients.noun_of(self.path)
        return list(leakage.tables(self.body, noun=noun))

    def sentences(self) -> list[str]:
        """Sentences on what the tables show of all images."""
        from ..reporting.page import leakage  # jinja2 and pandas

        return list(leakage.sentences(self.body))


def run(options: AuditOptions) -> Audit:
    """Measure what the models of a run give away about its patients.

    Raises FedcliError, HashError, UsageError.
    """
    path = source(options.run, options.work, "run")
    shadows = [source(shadow, options.work, "run") for shadow in options.shadow]
    different = {run.resolve() for run in (path, *shadows)}
    if len(different) <= len(shadows):
        hint = "shadow runs are others than the run that is audited"
        raise UsageError("a run is given twice", hint)
    return Audit(audit_run(path, shadows, options))


audit = called_with("audit", AuditOptions, run)
