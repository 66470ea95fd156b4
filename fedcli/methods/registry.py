"""The table of methods by name, and how a name, a pair or an option becomes a method."""

import sys
from dataclasses import dataclass, field, replace
from typing import Any

from .. import extensions, options
from ..common_options import FAMILIES
from ..errors import UsageError, nearest
from ..models.adapted import Adapters
from ..models.network import Network
from ..natural import folded
from ..provenance import LONG, Code, of_source
from .contract import NEEDS, Aggregator, Local
from .mixins import ContinuesRun, LinearHeadOnly


@dataclass(frozen=True)
class Method:
    """A named pair. `label` and `about` are what tables print, its docstring is `module`'s.

    families: keys of FAMILIES, the main one first; none of a method that does not say.
    code: name of a half -> where it comes from, of those that are not fedcli's own.
    adapters: what trains of a network that is frozen, in place of all of it.
    is_first: one of the few that a newcomer begins with.
    """

    name: str
    label: str
    about: str
    local: Local
    aggregator: Aggregator
    module: str
    base: str = ""  # of a pair, where its local half is documented
    families: tuple[str, ...] = ()
    # options of training where the user gives none
    default_training: dict[str, Any] = field(default_factory=dict)
    code: dict[str, Code] = field(default_factory=dict)
    adapters: Adapters | None = None
    is_first: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Every option of both halves with its value; in a pair, one that both have is local.x and
        server.x.
        """
        local = options.values(self.local)
        server = options.values(self.aggregator)
        if "+" not in self.name:
            return {**local, **server}
        values = {}
        for name, value in local.items():
            values[f"local.{name}" if name in server else name] = value
        for name, value in server.items():
            values[f"server.{name}" if name in local else name] = value
        return values

    @property
    def head(self) -> str:
        """The kind of classifier that its network has, see Local.head."""
        if self.adapters and self.adapters.kind == "prompt":
            return "prompts"
        return self.local.head

    def extend(self, net: Network) -> None:
        """Once, when the network is built: put the adapters in, then what the method adds."""
        if self.adapters:
            self.adapters.put(net)
        self.local.extend(net)

    def personal_tensors(self, net: Network) -> tuple[str, ...]:
        """Names of tensors that never leave the client. Raises UsageError where nothing else would
        train.
        """
        names = self.local.personal_tensors(net)
        staying = self.adapters.staying(net) if self.adapters else ()
        if not staying:
            return names
        names += staying
        if all(name in names for name, p in net.named_parameters() if p.requires_grad):
            problem = "nothing would be shared: all that trains stays at the clients"
            raise UsageError(problem, "leave --local-adapters out")
        return names

    @property
    def rule(self) -> str:
        """The reading of the paper that runs: paper, released or original."""
        rules = []
        for half in (self.local, self.aggregator):
            rule = options.values(half).get("rule")
            if rule and rule not in rules:
                rules.append(rule)
        return " + ".join(rules) or "paper"

    @property
    def needs(self) -> str:
        """The least that the server must see of each client, one of contract.NEEDS."""
        return max(
            self.local.needs,
            self.aggregator.needs,
            key=list(NEEDS).index,
        )

    @property
    def typed(self) -> str:
        """The name as a command line says it, with the file that it comes from."""
        halves = []
        for half in self.name.split("+"):
            code = self.code.get(half)
            halves.append(f"{code.name}:{half}" if code and code.path else half)
        return "+".join(halves)

    @property
    def documentation(self) -> str:
        """The docstring of its module; of a pair, those of both halves' modules."""
        modules = [self.module]
        if self.base not in ("", self.module):
            modules.insert(0, self.base)
        texts = [(sys.modules[name].__doc__ or "").strip() for name in modules]
        return "\n\n".join(texts)


FIRST = "first"  # among the families of a method that a newcomer begins with
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
    """Put a method into the table; its options' defaults are the instances' own.

    families: words of FAMILIES, and FIRST where a newcomer begins with it. Another method's name
    is refused; one that was registered by the same module may be, as a notebook's cell is run
    again. Raises ValueError.
    """
    module = sys._getframe(1).f_globals["__name__"]
    table = extensions.table("methods", METHODS)
    usual = extensions.origin() is None
    in_module = name in table and table[name].module == module
    if not (usual and in_module) or module.startswith("fedcli."):
        for word in (name, *aliases):
            if word in table or (usual and word in ALIASES):
                raise ValueError(f"method {word!r} is registered twice")
    words = families.split()
    family_words = tuple(word for word in words if word != FIRST)
    odd = set(family_words) - FAMILIES.keys()
    if odd:
        families_text = ", ".join(FAMILIES)
        raise ValueError(f"method {name!r}: no family {min(odd)!r}; there are {families_text}")
    code = extensions.origin() or of_source(local, aggregator)
    if code:
        _check(name, local, aggregator)
    training = default_training or {}
    code_by_half = {name: code} if code else {}
    table[name] = Method(
        name,
        label,
        about,
        local,
        aggregator,
        module,
        families=family_words,
        default_training=training,
        code=code_by_half,
        is_first=FIRST in words,
    )
    if usual:
        ALIASES.update(dict.fromkeys(aliases, name))


def _check(name: str, local: Local, aggregator: Aggregator) -> None:
    """Refuse what is no method, where it is registered. Raises TypeError, ValueError."""
    extensions.check_name(name)
    _check_half(local, Local)
    _check_half(aggregator, Aggregator)
    rule = type(aggregator)
    if rule.aggregate is Aggregator.aggregate:
        raise TypeError(f"{rule.__name__} has no aggregate()")


def _check_half(half: Any, kind: type) -> None:
    if not isinstance(half, kind):
        raise TypeError(f"{half!r} is no object of a class that extends {kind.__name__}")
    options.describe(type(half))  # refuses an annotation that is no type of an option


def resolve(spec: str, settings: dict[str, Any] | None = None) -> Method:
    """Build "fedprox", or "fedprox+afl": FedProx clients under AFL's server rule; "./mine.py" is a
    file's method.

    Raises UsageError for an unknown name, a pair that makes no sense or an option that neither half
    has.
    """
    base, addon = _split(spec)
    method = _get(base)
    if addon is not None:
        method = _paired(method, _get(addon))
    for key, value in (settings or {}).items():
        method = _configure(method, key, value)
    return method


def _split(spec: str) -> tuple[str, str | None]:
    """The two halves of a pair; the name of a single method may hold a plus, as FedISM+ does."""
    if "+" not in spec or _is_known(spec):
        return spec, None
    words = spec.split("+")
    best = words[0], "+".join(words[1:])
    best_count = 0  # of its halves that are known
    for end in range(1, len(words)):
        pair = "+".join(words[:end]), "+".join(words[end:])
        count = sum(map(_is_known, pair))
        if count > best_count:
            best = pair
            best_count = count
    return best


def _is_known(half: str) -> bool:
    """True for the name of a method, and for that of a file that exists."""
    if extensions.is_file(half):
        return extensions.split(half)[0].is_file()
    return folded(half) in spellings() or folded(half) in spellings(_of_packages(half))


def _get(name: str) -> Method:
    """The method of one name or file. Raises UsageError where there is none."""
    if extensions.is_file(name):
        return extensions.pick(name, "methods", _name_in)
    table = METHODS if folded(name) in spellings() else _of_packages(name)
    key = _name_in(name, table)
    if key is not None:
        return table[key]
    labels = [method.label for method in METHODS.values()]
    names = [*METHODS, *table]
    hint = nearest(name, [*names, *ALIASES, *labels], names)
    if len(hint) >= LONG:
        hint = "`fedcli methods` lists them"
    raise UsageError(f"unknown method {name[:80]!r}", hint)


def _name_in(text: str, table: dict[str, Method]) -> str | None:
    """The name under which a table has the method that a user writes so."""
    return spellings(table).get(folded(text))


def _of_packages(name: str) -> dict[str, Method]:
    return installed() if extensions.loads("methods", name) else {}


def installed() -> dict[str, Method]:
    """The methods of installed packages, those whose names fedcli does not have."""
    methods = {}
    for name, (method, _) in extensions.installed("methods").items():
        if name not in METHODS:
            methods[name] = method
    return methods


def spellings(table: dict[str, Method] | None = None) -> dict[str, str]:
    """Every way to write a method, without case and punctuation -> its name: names first, then
    aliases and labels.

    table: other methods than fedcli's own, which have no aliases.
    """
    if table is None:
        table = METHODS
    names = {name: name for name in table}
    aliases = ALIASES if table is METHODS else {}
    labels = {method.label: name for name, method in table.items()}
    spelt: dict[str, str] = {}
    for text, name in (names | aliases | labels).items():
        spelt.setdefault(folded(text), name)
    return spelt


def _paired(base: Method, addon: Method) -> Method:
    """The base's clients under the add-on's server rule. Raises UsageError for no such pair."""
    _refuse_base(base, addon)
    _refuse_addon(base, addon)
    families = tuple(dict.fromkeys(base.families + addon.families))
    name = f"{base.name}+{addon.name}"
    label = f"{base.label} + {addon.label}"
    meaning = f"{base.about}; {addon.about}"
    code = base.code | addon.code
    return replace(
        addon,
        name=name,
        label=label,
        about=meaning,
        local=base.local,
        base=base.module,
        families=families,
        code=code,
    )


def _adds_rule(method: Method) -> bool:
    plain = METHODS["fedavg"]
    return not isinstance(method.aggregator, type(plain.aggregator))


def _changes_training(method: Method) -> bool:
    plain = METHODS["fedavg"]
    return type(method.local) is not type(plain.local)


def _refuse_base(base: Method, addon: Method) -> None:
    """Raises UsageError for a base that takes no add-on."""
    if isinstance(base.aggregator, ContinuesRun):
        problem = f"{base.name} averages as the run before it did, so it takes no add-on"
        raise UsageError(problem, f"fedcli train fedavg+{addon.name} --then {base.name}")
    if _adds_rule(base):
        swapped = not _changes_training(base) and not _adds_rule(addon)
        hint = f"write {addon.typed}+{base.typed}" if swapped else "train each by itself"
        raise UsageError(f"{base.name} has its own server rule, so it takes no add-on", hint)


def _refuse_addon(base: Method, addon: Method) -> None:
    """Raises UsageError for an add-on that is none, or none for this base."""
    name = addon.name
    if isinstance(addon.aggregator, ContinuesRun):
        hint = f"fedcli train {base.name} --then {name}"
        raise UsageError(f"{name} continues a finished run, so it cannot be an add-on", hint)
    if _changes_training(addon):
        hint = f"an add-on is a server rule; train {name} by itself"
        raise UsageError(f"{name} changes local training, so it cannot be an add-on", hint)
    if not _adds_rule(addon):
        hint = f"train {base.name} by itself"
        raise UsageError(f"{name} averages as {base.name} does, so it adds nothing", hint)
    head = base.local.head
    if isinstance(addon.aggregator, LinearHeadOnly) and head != "linear":
        problem = f"{base.name} has a {head} classifier, which {name} cannot work with"
        raise UsageError(problem, "train each by itself")


def _configure(method: Method, key: str, value: Any) -> Method:
    """Set an option on every half that has it, or on the half named before a dot.

    Within a method one name means one thing; in a pair it may not, so the half must be named.
    """
    prefix, _, name = key.rpartition(".")
    halves: dict[str, Any] = {}  # field of Method -> a half that has the option
    if prefix in ("", "local") and name in options.values(method.local):
        halves["local"] = method.local
    if prefix in ("", "server") and name in options.values(method.aggregator):
        halves["aggregator"] = method.aggregator
    if not prefix and "+" in method.name and len(halves) == 2:
        problem = f"both halves of {method.name} have an option {name!r}"
        raise UsageError(problem, f"write local.{name} or server.{name}")
    if not halves:
        hint = f"{method.name} has no options at all"
        if method.settings:
            hint = nearest(key, method.settings)
        raise UsageError(f"{method.name} has no option {key!r}", hint)
    changes = {half: options.change(old, name, value) for half, old in halves.items()}
    return replace(method, **changes)
