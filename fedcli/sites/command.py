"""fedcli site."""

import json as text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from .. import console
from ..commands.shell import common as o
from ..commands.shell.shown import show_json
from ..common_options import NAME, OUTPUT
from ..errors import UsageError
from ..options import Flag
from ..stages.call import source
from ..system import terminal

if TYPE_CHECKING:
    from .policy import Policy, Privacy
    from .site import Site

# The memory of a site holds how much privacy was spent, and lies below --work by the name of the site.
TRUSTED = Flag(access="trusts")


def site(
    action: Annotated[
        Literal["run", "describe", "check"],
        "run: take part; describe: print the description that is sent; check: say what may leave, send nothing",
        NAME,
    ] = "run",
    data: Annotated[
        Path | None, "partition or corruption manifest", Flag("MANIFEST", access="trusts")
    ] = None,
    client: Annotated[
        str | None, "client whose images this site holds; default: the only one", TRUSTED
    ] = None,
    name: Annotated[
        str | None, "name of the site in the federation; default: the client's", TRUSTED
    ] = None,
    policy: Annotated[
        Path | None, "policy.toml: what the site allows", Flag("FILE", access="trusts")
    ] = None,
    socket: Annotated[Path | None, "socket to listen at", Flag("PATH", access="trusts")] = None,
    nvflare: Annotated[
        Path | None,
        "answer the jobs of NVFlare's client of this hospital",
        Flag("PROFILE", access="trusts"),
    ] = None,
    state: Annotated[
        Path | None,
        "memory and audit file; default: --work/site/NAME",
        Flag("FOLDER", access="trusts"),
    ] = None,
    device: Annotated[str, "cpu, cuda or cuda:N"] = "cpu",
    quality: Annotated[
        bool,
        "with describe: also histograms of the images' noise, sharpness and so on, as far as the policy allows",
    ] = False,
    out: Annotated[Path | None, "file for the description", Flag("FILE", access="writes")] = None,
    force: o.Force = False,
    work: Annotated[
        Path, "folder of all results", Flag(local=True, panel=OUTPUT, access="trusts")
    ] = o.DEFAULT_WORK,
    json: o.Json = False,
) -> None:
    """Take part in a federation, with images that stay here.

    A coordinator elsewhere sends the model, and this site trains it. Its policy limits what may leave.

    Examples: fedcli site describe --client client-00 --out client-00.json; fedcli site check --client client-00
    """
    from . import policy as policies
    from .description import held_by
    from .description import quality as described_quality
    from .site import Site

    if quality and action != "describe":
        raise UsageError("--quality is for describe", "fedcli site describe --quality")
    if action == "describe" and out and out.suffix != ".json":
        raise UsageError(
            f"--out {out}: a description is a .json file",
            "name it so: --sites FOLDER reads no other",
        )
    if action == "describe" and out:
        o.check_named(out, force=force)
    path = source(data, work, "corruption", "partition")
    allowed = policies.read(policy)
    called = name or held_by(path, client)
    mine = Site(
        path,
        state or work / "site" / called,
        client=client,
        name=name,
        policy=allowed,
        device=device,
    )
    if action == "describe":
        about = mine.description
        if quality:
            allowed.check_quality(about["images"]["train"] + about["images"]["val"])
            about = about | {"quality": described_quality(path, mine.client, allowed.smallest_cell)}
        described = text.dumps(about, indent=1, sort_keys=True, ensure_ascii=False)
        if out is None:
            print(described)
            return
        o.write_named(out, f"{described}\n".encode(), force=force)
        print(described) if json else console.result(str(out))
        return
    if action == "check":
        show_json({"description": mine.description, "policy": asdict(allowed)}) if json else _check(
            mine
        )
        return
    from .sockets import serve, serve_nvflare

    o.refuse_together(socket=socket, nvflare=nvflare)
    if nvflare:
        serve_nvflare(mine, nvflare)
    elif socket:
        serve(mine, socket)
    else:
        hint = "give --socket PATH, such as --socket sites/hospital-a.sock, or --nvflare PROFILE"
        raise UsageError("a site needs a socket, or a profile of NVFlare, to be reached by", hint)


def _check(site: "Site") -> None:
    policy, about = site.policy, site.description
    parts = [part for part, images in about["images"].items() if images]
    counts = []
    for column, cells in about["counts"].items():
        for place, value in enumerate(
            dict.fromkeys(value for of_part in cells.values() for value in of_part)
        ):
            shown = (cells.get(part, {}).get(value, 0) for part in parts)
            said = ("hidden" if count is None else str(count) for count in shown)
            counts.append(["" if place else column, value, *said])
    print(
        f"Site {site.name}: what may leave it under this policy. Nothing was sent and no coordinator was asked.\n"
    )
    terminal.table(["", "under this policy"], _allowed(site))
    terminal.table(
        ["images by", "", *parts], counts, title="Counts in the description, which is sent once:"
    )
    if policy.privacy and not policy.privacy.answers:
        console.warn(
            f"not even one answer stays within epsilon {policy.privacy.epsilon:g}: raise noise or epsilon"
        )


def _allowed(site: "Site") -> list[list[str]]:
    policy, images, least = site.policy, site.description["images"], site.policy.smallest_cell
    loss = "" if policy.privacy else ", its mean training loss"
    step = (
        "Even a single training step may be sent."
        if policy.gradients
        else "A model after a single training step is not sent, since it shows the gradient."
    )
    form = "The model is sent as it is, not masked: the coordinator sees the model of this site."
    if policy.secure_aggregation:
        form = f"The model is sent only masked; the server sees the sum over at least {policy.smallest_sum} sites."
    most = (
        f"at most {policy.maximum_rounds} rounds of a training"
        if policy.maximum_rounds
        else "any number of rounds"
    )
    fewest = (
        f"; at least {policy.minimum_images} training images here" if policy.minimum_images else ""
    )
    return [
        ["stays here", "the images, their file names, and the ids of images and patients"],
        [
            "sent once",
            f"the counts below (those under {least} are hidden, and others that would reveal them), "
            "names of classes and groups, size and channels of the images, a checksum of the data, software versions",
        ],
        [
            "sent each round",
            f"the model trained here{loss}, the number of training images "
            f"({images['train']}) and of training steps",
        ],
        ["form of the model", f"{form} {step}"],
        [
            "noise",
            _noise(policy.privacy, site.folder)
            if policy.privacy
            else "No noise is added to the model.",
        ],
        ["further numbers", _columns(policy)],
        ["image quality", _quality(policy)],
        ["evaluation", _scores(policy, images["test"])],
        ["methods", ", ".join(policy.methods) or "every method"],
        ["limits", f"{most}{fewest}"],
        ["record", f"{site.folder / 'audit.jsonl'} has a line for every answer that is sent"],
    ]


def _columns(policy: "Policy") -> str:
    allowed = policy.allowed_columns
    if allowed is None:
        what = "all that a method reports beside the model, such as class counts, losses of groups or spectra of images"
        return f"{what}; the policy does not limit them"
    if not allowed:
        return "none: a method that reports more than the model is refused"
    return f"only {', '.join(allowed)}{'; the noise does not cover them' if policy.privacy else ''}"


def _noise(privacy: "Privacy", folder: Path) -> str:
    """The reach of noise, how many answers may leave with it and what those that did have revealed."""
    from ..federation.privacy import epsilon
    from .policy import LEDGER, read_ledger

    answered, revealed = read_ledger(folder / LEDGER)
    known, first = len(answered), epsilon(privacy.noise, 1, privacy.delta)
    spent = max(
        revealed, epsilon(privacy.noise, known, privacy.delta)
    )  # the policy may have had less noise
    return (
        f"The change of the model is clipped to norm {privacy.clip:g}; normal noise with standard deviation "
        f"{privacy.noise * privacy.clip:g} is added. Differential privacy for all patients of this site together: at "
        f"most epsilon {privacy.epsilon:g} at delta {privacy.delta:g}, which allows {privacy.answers:,} answers, one "
        f"each round. The first answer spends {first:.3g}. Sent so far: {known:,} answers, epsilon {spent:.3g}."
    )


def _quality(policy: "Policy") -> str:
    """Histograms that leave where a person describes the site with --quality."""
    if not policy.allows_quality:
        return "Nothing: `site describe --quality` is refused."
    what = "only with `site describe --quality`: histograms of noise, sharpness and the like over all its images"
    return f"{what}, in cells of at least {policy.smallest_cell}"


def _scores(policy: "Policy", images: int) -> str:
    if not policy.allows_scores:
        return "Nothing about the test images is sent. `fedcli evaluate` over the sites is refused."
    if not images:
        return (
            "It would be refused: this client has no test images. `fedcli partition --by SITE`, where SITE is the "
            "attribute that names the hospital, gives each client its own; `--clients 1` gives all to the only client."
        )
    return (
        f"For each model: counts of the {images} test images by true and predicted class, and histograms of predicted "
        f"probabilities, over all images and for each group. Left out: classes, and classes of a group, of fewer than "
        f"{policy.smallest_cell} images, and others that would reveal them. `scores = false` in the policy refuses "
        "this."
    )
