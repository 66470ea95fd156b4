"""The table of methods by name, and how a name, a pair or an option becomes a method."""

import sys
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from .. import extensions, options
from ..common_options import FAMILIES
from ..errors import UsageError, nearest
from ..models.adapted import Adapters
from ..models.network import Network
from ..provenance import LONG, Code, of_source
from .contract import NEEDS, Aggregator, Local
from .mixins import ContinuesRun, LinearHeadOnly


@dataclass(frozen=True)
class Method:
    """A named pair. `label` and `about` are what tables print, `module` is where its docstring lives.

    families: keys of FAMILIES, the main one first; none of a method that does not say.
    code: name of a half -> where it comes from, of those that are not fedcli's own.
    adapters: what trains of a network that is frozen, in place of all of it.
    """

    name: str
    label: str
    about: str
    local: Local
    aggregator: Aggregator
    module: str
    base: str = ""  # of a pair, where its local half is documented
    families: tuple[str, ...] = ()
    default_training: dict[str, Any] = field(
        default_factory=dict
    )  # options of training where the user gives none
    code: dict[str, Code] = field(default_factory=dict)
    adapters: Adapters | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Every option of both halves with its value; in a pair, one that both have is local.x and server.x."""
        halves = {"local": options.values(self.local), "server": options.values(self.aggregator)}
        shared = halves["local"].keys() & halves["server"].keys() if "+" in self.name else set()
        return {
            f"{half}.{k}" if k in shared else k: v
            for half, values in halves.items()
            for k, v in values.items()
        }

    @property
    def head(self) -> str:
        """The kind of classifier that its network has, see Local.head."""
        return "prompts" if self.adapters and self.adapters.kind == "prompt" else self.local.head

    def extend(self, net: Network) -> None:
        """Once, when the network is built: put the adapters in, then what the method adds."""
        if self.adapters:
            self.adapters.put(net)
        self.local.extend(net)

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        """Names of tensors that never leave the client. Raises UsageError where nothing else would train."""
        own = self.local.personal_tensors(net)
        if not (self.adapters and self.adapters.local):
            return own
        own += self.adapters.names(net)
        if all(name in own for name, p in net.named_parameters() if p.requires_grad):
            raise UsageError(
                "nothing would be shared: all that trains stays at the clients",
                "leave --local-adapters out",
            )
        return own

    @property
    def rule(self) -> str:
        """The reading of the paper that runs: paper, released or original."""
        rules = [
            options.values(half)["rule"]
            for half in (self.local, self.aggregator)
            if "rule" in options.values(half)
        ]
        return " + ".join(dict.fromkeys(rules)) or "paper"

    @property
    def needs(self) -> str:
        """The least that the server must see of each client, one of contract.NEEDS."""
        return max(self.local.needs, self.aggregator.needs, key=list(NEEDS).index)

    @property
    def typed(self) -> str:
        """The name as a command line says it, with the file that it comes from."""
        halves = [(half, self.code.get(half)) for half in self.name.split("+")]
        return "+".join(
            f"{code.name}:{half}" if code and code.path else half for half, code in halves
        )

    @property
    def documentation(self) -> str:
        modules = dict.fromkeys(name for name in (self.base, self.module) if name)
        return "\n\n".join((sys.modules[name].__doc__ or "").strip() for name in modules)


METHODS: dict[str, Method] = {}
ALIASES: dict[str, str] = {}


def register(
    name: str,
    local: Local,
    aggregator: Aggregator,
    *,
    label: str,
    about: str,
    families: str = "",
    aliases: tuple[str, ...] = (),
    default_training: dict[str, Any] | None = None,
) -> None:
    """Put a method into the table; its options' defaults are the instances' own. families: words of FAMILIES.

    Another method's name is refused; one that was registered by the same module may be, as a notebook's cell is run
    again. Raises ValueError.
    """
    module = sys._getframe(1).f_globals["__name__"]
    table, usual = extensions.table("methods", METHODS), extensions.origin() is None
    again = (
        usual
        and name in table
        and table[name].module == module
        and not module.startswith("fedcli.")
    )
    if known := [
        n for n in (name, *aliases) if not again and (n in table or (usual and n in ALIASES))
    ]:
        raise ValueError(f"method {known[0]!r} is registered twice")
    if odd := set(families.split()) - FAMILIES.keys():
        raise ValueError(
            f"method {name!r}: no family {min(odd)!r}; there are {', '.join(FAMILIES)}"
        )
    if code := extensions.origin() or of_source(local, aggregator):
        _check(name, local, aggregator)
    table[name] = Method(
        name,
        label,
        about,
        local,
        aggregator,
        module,
        families=tuple(families.split()),
        default_training=default_training or {},
        code={name: code} if code else {},
    )
    if usual:
        ALIASES.update(dict.fromkeys(aliases, name))


def _check(name: str, local: Local, aggregator: Aggregator) -> None:
    """Refuse what is no method, where it is registered. Raises TypeError, ValueError."""
    extensions.check_name(name)
    for half, kind in ((local, Local), (aggregator, Aggregator)):
        if not isinstance(half, kind):
            raise TypeError(f"{half!r} is no object of a class that extends {kind.__name__}")
        options.describe(type(half))  # refuses an annotation that is no type of an option
    if type(aggregator).aggregate is Aggregator.aggregate:
        raise TypeError(f"{type(aggregator).__name__} has no aggregate()")


def resolve(spec: str, settings: dict[str, Any] | None = None) -> Method:
    """Build "fedprox", or "fedprox+afl": FedProx clients under AFL's server rule; "./mine.py" is a file's method.

    Raises UsageError for an unknown name, a pair that makes no sense or an option that neither half has.
    """
    base, addon = _split(spec)
    method = _known(base)
    if addon is not None:
        method = _paired(method, _known(addon))
    for key, value in (settings or {}).items():
        method = _configure(method, key, value)
    return method


def _split(spec: str) -> tuple[str, str | None]:
    """The two halves of a pair; the name of a single method may hold a plus, as FedISM+ does."""
    ends = [at for at, character in enumerate(spec) if character == "+"]
    if not ends or _is_known(spec):
        return spec, None
    pairs = [(spec[:at], spec[at + 1 :]) for at in ends]
    whole = (pair for pair in pairs if all(map(_is_known, pair)))
    likely = (pair for pair in pairs if any(map(_is_known, pair)))
    return next(whole, next(likely, pairs[0]))


def _is_known(half: str) -> bool:
    """Tell whether it names a method, or a file that is there."""
    if extensions.is_file(half):
        return extensions.split(half)[0].is_file()
    return folded(half) in spellings() or folded(half) in spellings(_of_packages(half))


def _known(name: str) -> Method:
    if extensions.is_file(name):
        return extensions.pick(
            name, "methods", lambda text, table: spellings(table).get(folded(text))
        )
    table = METHODS if folded(name) in spellings() else _of_packages(name)
    if folded(name) in (known := spellings(table)):
        return table[known[folded(name)]]
    labels = [method.label for method in METHODS.values()]
    names = [*METHODS, *table]
    hint = nearest(name, [*names, *ALIASES, *labels], names)
    raise UsageError(
        f"unknown method {name[:80]!r}", hint if len(hint) < LONG else "`fedcli methods` lists them"
    )


def _of_packages(name: str) -> dict[str, Method]:
    return installed() if extensions.loads("methods", name) else {}


def installed() -> dict[str, Method]:
    """The methods of installed packages, those whose names fedcli does not have."""
    return {
        name: method
        for name, (method, _) in extensions.installed("methods").items()
        if name not in METHODS
    }


def spellings(table: dict[str, Method] | None = None) -> dict[str, str]:
    """Every way to write a method, without case and punctuation -> its name: names first, then aliases and labels.

    table: other methods than fedcli's own, which have no aliases.
    """
    aliases, table = (ALIASES, METHODS) if table is None or table is METHODS else ({}, table)
    labels = {method.label: name for name, method in table.items()}
    spelt: dict[str, str] = {}
    for text, name in ({name: name for name in table} | aliases | labels).items():
        spelt.setdefault(folded(text), name)
    return spelt


@cache
def folded(text: str) -> str:
    """A name as it is compared: small letters, digits and plus signs."""
    return "".join(c for c in text.lower() if c.isalnum() or c == "+")


def _paired(base: Method, addon: Method) -> Method:
    plain = METHODS["fedavg"]
    adds_rule = not isinstance(addon.aggregator, type(plain.aggregator))
    if isinstance(base.aggregator, ContinuesRun):
        hint = f"fedcli train fedavg+{addon.name} --then {base.name}"
        raise UsageError(
            f"{base.name} averages as the run before it did, so it takes no add-on", hint
        )
    if not isinstance(base.aggregator, type(plain.aggregator)):
        swapped = type(base.local) is type(plain.local) and not adds_rule
        hint = f"write {addon.typed}+{base.typed}" if swapped else "train each by itself"
        raise UsageError(f"{base.name} has its own server rule, so it takes no add-on", hint)
    if isinstance(addon.aggregator, ContinuesRun):
        hint = f"fedcli train {base.name} --then {addon.name}"
        raise UsageError(f"{addon.name} continues a finished run, so it cannot be an add-on", hint)
    if type(addon.local) is not type(plain.local):
        hint = f"an add-on is a server rule; train {addon.name} by itself"
        raise UsageError(f"{addon.name} changes local training, so it cannot be an add-on", hint)
    if not adds_rule:
        raise UsageError(
            f"{addon.name} averages as {base.name} does, so it adds nothing",
            f"train {base.name} by itself",
        )
    if isinstance(addon.aggregator, LinearHeadOnly) and base.local.head != "linear":
        what = f"{base.name} has a {base.local.head} classifier"
        raise UsageError(f"{what}, which {addon.name} cannot work with", "train each by itself")
    name, label = f"{base.name}+{addon.name}", f"{base.label} + {addon.label}"
    return replace(
        addon,
        name=name,
        label=label,
        about=f"{base.about}; {addon.about}",
        local=base.local,
        base=base.module,
        families=tuple(dict.fromkeys(base.families + addon.families)),
        code=base.code | addon.code,
    )


def _configure(method: Method, key: str, value: Any) -> Method:
    """Set an option on every half that has it, or on the half named before a dot.

    Within a method one name means one thing; in a pair it may not, so the half must be named.
    """
    only, _, name = key.rpartition(".")
    halves = {"local": "local", "server": "aggregator"}
    named = {field: getattr(method, field) for half, field in halves.items() if only in ("", half)}
    having = {field: half for field, half in named.items() if name in options.values(half)}
    if not only and "+" in method.name and len(having) == 2:
        raise UsageError(
            f"both halves of {method.name} have an option {name!r}",
            f"write local.{name} or server.{name}",
        )
    if not having:
        hint = (
            nearest(key, method.settings)
            if method.settings
            else f"{method.name} has no options at all"
        )
        raise UsageError(f"{method.name} has no option {key!r}", hint)
    return replace(
        method, **{field: options.change(half, name, value) for field, half in having.items()}
    )
