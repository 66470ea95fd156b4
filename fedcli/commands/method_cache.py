"""Facts of fedcli's own methods, as `fedcli methods` shows them, kept beside the compiled files: asking imports torch.

They are asked of the methods themselves the first time, and again when any file of fedcli has changed.
"""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from .. import __version__
from ..io.files import write_text

PACKAGE = Path(__file__).parent.parent
Facts = dict[str, Any]


def places() -> list[Path]:
    """Where facts may be kept: with the package, or where that may not be written, with the user."""
    stats = [(path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(PACKAGE.rglob("*.py"))]
    key = hashlib.sha256(repr((__version__, stats)).encode()).hexdigest()[:16]
    home = os.path.expanduser("~")  # noqa: PTH111 - Path's raises where an account has no home
    user = Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache")
    folders = [PACKAGE / "methods" / "__pycache__", *([user / "fedcli"] if user.is_absolute() else [])]
    return [folder / f"methods-{key}.json" for folder in folders]


def all_facts() -> list[Facts]:
    """Facts of every method of fedcli, in the order in which the package imports them."""
    for path in places():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # absent, or changed by somebody
            return json.loads(path.read_text(encoding="utf-8"))["methods"]
    from ..methods import METHODS

    facts = [facts_of(method) for method in sorted(METHODS.values(), key=lambda method: method.module)]
    _keep(facts)
    return facts


def named(name: str) -> Facts | None:
    """Facts of the method with this name, label or alias, in letters of any case."""
    return next((facts for facts in all_facts() if name.lower() in facts["names"]), None)


def _keep(facts: list[Facts]) -> None:
    """Write facts in place of those of other files, at the first place where that can be done."""
    for path in places():
        with contextlib.suppress(OSError):  # may not be written there
            for old in path.parent.glob("methods-*.json"):
                old.unlink()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps({"methods": facts}))
            return


def facts_of(method: Any) -> Facts:
    """Facts of an imported method."""
    from .. import options
    from ..federation.graphs import no_graph_reason
    from ..methods.contract import NEEDS
    from ..methods.registry import ALIASES
    from . import method_fits

    settings = {}
    for half, part in {"local": method.local, "server": method.aggregator}.items():
        for option in options.describe(part).values():
            name = option.name if option.name in method.settings else f"{half}.{option.name}"
            settings[name] = option.about() | {"name": name}
    aliases = [alias for alias, usual in ALIASES.items() if usual == method.name]
    return {
        "name": method.name, "label": method.label, "about": method.about, "rule": method.rule,
        "names": [name.lower() for name in (method.name, method.label, *aliases)],
        "documentation": method.documentation,
        "options": list(settings.values()),
        "code": {half: code.recorded for half, code in method.code.items()},
        "needs": method.needs, "server_sees": NEEDS[method.needs],
        "needs_every_client": method.aggregator.full_participation,
        "needs_one_label": method.local.needs_one_label or method.aggregator.needs_one_label,
        "not_recorded": no_graph_reason(method.local),
        "trains_with": [fit._asdict() for fit in method_fits.fits(method)],
    }  # fmt: skip
