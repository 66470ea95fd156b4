"""The audit stage: how much of its patients a finished run gives away."""

from ..errors import UsageError
from ..reporting.table import Table
from ..scores.audit.audited import Asked
from ..scores.audit.audited import audit as audit_run
from .call import called_with, path_of, source
from .evaluation_options import AuditOptions
from .results import Result


class Audit(Result):
    """Leaks of a run about its patients."""

    kind = "audit"

    def tables(self) -> list[Table]:
        """Membership by client and group, the hospital of an image, and images from a gradient."""
        from ..reporting.page import leakage  # jinja2 and pandas

        return list(leakage.tables(self.body))

    def sentences(self) -> list[str]:
        """Sentences on what the tables show of all images."""
        from ..reporting.page import leakage  # jinja2 and pandas

        return list(leakage.sentences(self.body))


def run(options: AuditOptions) -> Audit:
    """Measure what the models of a run give away about its patients. Raises FedcliError, HashError, UsageError."""
    path = source(options.run, options.work, "run")
    shadows = [source(each, options.work, "run") for each in options.shadow]
    if len({each.resolve() for each in [path, *shadows]}) <= len(shadows):
        raise UsageError("a run is given twice", "shadow runs are others than the run that is audited")
    asked = Asked(options.batch, options.iterations, options.client or "", options.seed)
    out = path_of(options.out)
    return Audit(audit_run(path, shadows, asked, out=out, device=options.device, made_by=options.made_by()))


audit = called_with("audit", AuditOptions, run)
