"""fedcli site."""

import json as text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import console
from ..commands.shell import common as o
from ..commands.shell.shown import show_json
from ..common_options import NAME
from ..errors import UsageError
from ..options import Flag
from ..stages.call import source
from ..system import terminal

if TYPE_CHECKING:
    from .policy import Policy, Privacy
    from .site import Site


def site(
    action: Annotated[
        Literal["run", "describe", "check"],
        "run: answer a coordinator; describe: what it may know; check: list what would be sent",
        NAME,
    ] = "run",
    data: Annotated[Path | None, "partition or corruption manifest", Flag("MANIFEST")] = None,
    client: Annotated[str | None, "whose images in it; default: its only client's"] = None,
    name: Annotated[str | None, "of the site in the federation; default: the client's"] = None,
    policy: Annotated[Path | None, "policy.toml: what the site allows", Flag("FILE")] = None,
    socket: Annotated[Path | None, "of the socket to listen at", Flag("PATH")] = None,
    nvflare: Annotated[Path | None, "answer the jobs of NVFlare's client of this hospital", Flag("PROFILE")] = None,
    state: Annotated[Path | None, "memory and audit file; default: --work/site/NAME", Flag("FOLDER")] = None,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
    out: Annotated[Path | None, "write the description there", Flag("FILE")] = None,
    work: o.Work = o.DEFAULT_WORK,
    json: o.Json = False,
) -> None:
    """Take part in a federation, with images that stay here.

    A coordinator elsewhere asks for updates of the model. The policy of this site says what it may get.

    Examples: fedcli site describe --client client-00 --out client-00.json; fedcli site check --client client-00
    """
    from . import policy as policies
    from .description import held_by
    from .site import Site

    if action == "describe" and out and out.suffix != ".json":
        raise UsageError(f"--out {out}: a description is a .json file", "name it so: --sites FOLDER reads no other")
    path = source(data, work, "corruption", "partition")
    allowed = policies.read(policy)
    called = name or held_by(path, client)
    mine = Site(path, state or work / "site" / called, client=client, name=name, policy=allowed, device=device)
    if action == "describe":
        described = text.dumps(mine.description, indent=1, sort_keys=True, ensure_ascii=False)
        if out is None:
            print(described)
            return
        o.write(out, described + "\n")
        print(described) if json else console.result(str(out))
        return
    if action == "check":
        show_json({"description": mine.description, "policy": asdict(allowed)}) if json else _check(mine)
        return
    from .sockets import serve, serve_nvflare

    o.refuse_together(socket=socket, nvflare=nvflare)
    if nvflare:
        serve_nvflare(mine, nvflare)
    elif socket:
        serve(mine, socket)
    else:
        hint = "give --socket PATH, such as --socket sites/hospital-a.sock, or --nvflare PROFILE"
        raise UsageError("a site needs to know who asks", hint)


def _check(site: "Site") -> None:
    """Print what would leave, for people who have to allow it."""
    policy, about = site.policy, site.description
    rows = [
        [column, part, *(f"{value}: {'hidden' if count is None else count}" for value, count in cells.items())]
        for column, parts in about["counts"].items()
        for part, cells in parts.items()
    ]
    widest = max(len(row) for row in rows)
    terminal.table(["of", "part", *[""] * (widest - 2)], [row + [""] * (widest - len(row)) for row in rows])
    least = policy.smallest_cell
    mean_loss = "" if policy.privacy else " its mean loss,"
    plain = "as it is, not masked: the coordinator sees the model of this site"
    summed = f"only masked, within a sum over at least {policy.smallest_sum} sites (secure aggregation)"
    lines = [
        f"site {site.name}: {about['images']['train']} training images of {about['dataset']}, which stay here",
        f"once: the table above, the form of the images and versions; counts below {least} are hidden",
        f"each round: the model,{mean_loss} the numbers of images and of steps, and what the method reports besides",
        f"the model is sent {summed if policy.secure_aggregation else plain}",
        f"methods: {', '.join(policy.methods) or 'all'}; columns: {_listed(policy.allowed_columns)}",
        f"at least {policy.minimum_images} images, at most {policy.maximum_rounds or 'any number of'} rounds; "
        f"an update of a single training step {'may' if policy.gradients else 'must not'} be sent",
        *([_spent(policy.privacy, site.folder)] if policy.privacy else ["updates are sent without noise"]),
        _scores(policy, about["images"]["test"]),
        f"memory and audit file: {site.folder}; this command sent nothing",
    ]
    for line in lines:
        console.say(line)
    if policy.privacy and not policy.privacy.answers:
        console.warn(f"not a single answer stays within epsilon {policy.privacy.epsilon:g}: raise noise or epsilon")


def _spent(privacy: "Privacy", folder: Path) -> str:
    """The reach of noise, how many answers may leave with it and what those that did have revealed."""
    from ..federation.privacy import epsilon
    from .privacy import LEDGER, read_ledger

    answered, revealed = read_ledger(folder / LEDGER)
    known, first = len(answered), epsilon(privacy.noise, 1, privacy.delta)
    spent = max(revealed, epsilon(privacy.noise, known, privacy.delta))  # the policy may have had less noise
    return (
        f"updates are cut at norm {privacy.clip:g} and get noise of {privacy.noise:g} times that; epsilon may reach "
        f"{privacy.epsilon:g} at delta {privacy.delta:g}: the first answer reveals {first:.3g}, and "
        f"{privacy.answers:,} answers (one each round) are allowed; {known:,} were given from this "
        f"folder, which revealed {spent:.3g}"
    )


def _scores(policy: "Policy", images: int) -> str:
    """Scores that leave where a coordinator evaluates."""
    if not policy.allows_scores:
        return "evaluation: no counts of test images leave, and `fedcli evaluate` over the sites ends with a refusal"
    if not images:
        hint = (
            "`fedcli partition --by SITE`, SITE being the attribute of hospitals, gives each client its own, and "
            "`--clients 1` all to the only one"
        )
        return f"evaluation: it would be refused, since no test image is this client's; {hint}"
    return (
        f"evaluation, for each model: counts of answers on the {images} test images and histograms of their chances, "
        f"of all and of each group; cells below {policy.smallest_cell} are left out; scores = false refuses"
    )


def _listed(columns: tuple[str, ...] | None) -> str:
    return "all" if columns is None else ", ".join(columns) or "none"
