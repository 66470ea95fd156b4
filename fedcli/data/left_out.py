"""Words on the files that preparation has left out."""

from collections.abc import Sequence

from ..console import counted, printable

REASONS = 2  # that are named
LONGEST_REASON = 60  # characters
LONGEST_NAME = 30


def lines(skipped: Sequence[tuple[str, str]]) -> list[str]:
    """Lines on files that were left out, each with its reason: by reason, the most frequent first,
    with an example; none where there are no files.
    """
    if not skipped:
        return []
    files_by_reason: dict[str, list[str]] = {}
    for file, reason in skipped:
        files_by_reason.setdefault(reason, []).append(file)
    reasons = sorted(files_by_reason, key=lambda reason: -len(files_by_reason[reason]))
    texts = [f"left out: {counted(len(skipped), 'file', 'files')}, listed in dataset.json"]
    for reason in reasons[:REASONS]:
        files = files_by_reason[reason]
        example = _short(files[0], LONGEST_NAME)
        if len(files) > 1:
            example = f"such as {example}"
        texts.append(f"  {len(files):,}: {_short(reason, LONGEST_REASON)}, {example}")
    others = [len(files_by_reason[reason]) for reason in reasons[REASONS:]]
    if others:
        texts.append(f"  {sum(others):,}: {counted(len(others), 'other reason', 'other reasons')}")
    return texts


def _short(text: str, longest: int) -> str:
    text = printable(text.replace("\n", " "))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
