"""Requirements on a manifest of each kind: its files, and the shape of its body."""

from ..shapes import NUMBER

TEXT = (str, None)
POOLED = {
    "classes": [str],
    "attributes": {str: [str]},
    "size": [int],
    "channels": int,
    "augment": str,
}
CLIENT = {
    "client": str,
    "train": int,
    "val": int,
    "test": int,
    "class_counts": [int],
}
PER_CLIENT = {str: NUMBER}
SKEW = {
    "total_variation": {"max": (*NUMBER, None), "mean": (*NUMBER, None), "between": ([str], None)},
    "total_variation_to_pooled": PER_CLIENT,
    "entropy_nats": PER_CLIENT,
    "classes_per_client": NUMBER,
    "images": {"min": int, "max": int, "ratio": NUMBER},
    "images_in_several": {"count": int, "share": NUMBER},
    "units_in_several": (int, None),
}
NOISE = {
    str: {"kind": str, "rate": NUMBER, "changed": int}
}  # client -> what became of its training labels
HIDDEN = {
    "hide": [str],
    "share": NUMBER,
    "seed": int,
    "images": {str: {str: int}},
}  # client -> attribute -> images
ATTACK = {
    "kind": str,
    "strength": NUMBER,
    "seed": int,
    "clients": [str],
    "target?": int,
    "patch?": int,
    "flip?": {str: str},
}
COUNT = {"shared": (int, None), "of": (int, None)}  # patients; None: hidden by a site
SHARED_BY_PART = {"test?": COUNT, "val?": COUNT}
SHARED = {"unit": str, **SHARED_BY_PART, "sites?": {str: SHARED_BY_PART}}
DATA = {
    **POOLED,
    "task?": str,
    "dataset": str,
    "roster": [CLIENT],
    "label_noise?": NOISE,
    "hidden_attributes?": HIDDEN,
    "attack?": ATTACK,
    "shared_patients?": SHARED,
}
CORRUPTION = {
    "kind": str,
    "severity": int,
    "ratio": NUMBER,
    "clients": [str],
    "each?": [{"kind": str, "severity": int, "clients": [str]}],
}
PRIVACY = {
    "clip": float,
    "noise": float,
    "epsilon": (float, None),
    "delta": float,
    "of?": str,
    "sampling?": str,
    "clients?": {str: (float, None)},
}
MODEL = {
    "name": str,
    "channels": int,
    "size": int,
    "precision": str,
    "personal": [str],
    "frozen": [str],
    "teacher_width": (int, None),
    "personal_models": bool,
    "numbers?": int,
}
SHARES = {str: NUMBER}
INTERVAL = {
    "value": (*NUMBER, None),
    "low": (*NUMBER, None),
    "high": (*NUMBER, None),
}
INVERSION = {
    "client": str,
    "blind": [float],
    "blind_by_class?": [float],
    "models": [{"model": str, "distance": float, "psnr": [float]}],
}
WITHIN_CLASSES = {
    "count": int,
    "classes": int,
    "accuracy": INTERVAL,
    "chance": float,
}
AUDIT = {
    "label": str,
    "dataset": str,
    "round": int,
    "caution?": str,
    "shared_patients?": SHARED,
    "privacy?": PRIVACY,
    "shared_tests": bool,
    "membership": [
        {
            "attack": str,
            "attribute": str,
            "group": str,
            "members": int,
            "held_out": int,
            "small": bool,
            "numbers": {str: INTERVAL},
            "allowed": (SHARES, None),
        }
    ],
    "hospital": [
        {
            "of": str,
            "count": int,
            "hospitals": int,
            "accuracy": INTERVAL,
            "chance": float,
            "by_class?": (INTERVAL, None),
            "within?": (WITHIN_CLASSES, None),
        }
    ],
    "source?": [
        {
            "server": str,
            "attribute": str,
            "group": str,
            "small": bool,
            "images": int,
            "own": INTERVAL,
            "others": INTERVAL,
            "difference": INTERVAL,
        }
    ],
    "inversion": (INVERSION, None),
}
BODIES = {
    "dataset": {
        **POOLED,
        "task?": str,
        "name": str,
        "count?": int,
        "split?": dict,
        "unit": TEXT,
        "sites": TEXT,
        "shared_patients?": SHARED,
    },
    "partition": {
        **DATA,
        "skew?": SKEW,
        "scheme": str,
        "held_out?": {"attribute": str, "value": str, "images": int},
        "left_out?": [{"attribute": TEXT, "value": str, "images": int}],
    },
    "corruption": {**DATA, **CORRUPTION},
    "sites": {
        **POOLED,
        "dataset": str,
        "versions": {str: str},
        "data": {str: str},
        "roster": [{"client": str, "train": int, "val": int, "test": int}],
        "shared_patients?": SHARED,
    },
    "run": {
        "method": str,
        "label": str,
        "rule": str,
        "settings": dict,
        "rounds": int,
        "roster": [str],
        "dataset": str,
        "stopped_after?": int,
        "model": MODEL,
        "corruption": (CORRUPTION, None),
        "single_site?": bool,
        "warning?": str,
        "privacy?": PRIVACY,
        "start?": (dict, None),
        "needs_code?": [str],
    },
    "audit": AUDIT,
    "scores": {
        "method?": str,
        "label?": str,
        "rule?": str,
        "settings?": dict,
        "rounds?": int,
        "dataset?": str,
        "options?": dict,
        "model?": dict,
        "clients?": dict,
        "grouped?": dict,
        "classes?": [str],
        "attributes?": {str: [str]},
        "kept_rounds?": [int],
        "data?": dict,
        "warning?": str,
        "view?": str,
        "roster_size?": int,
        "train_images?": int,
        "sample?": bool,
        "unit?": str,
        "single_site?": bool,
        "personal_models?": bool,
    },
}
# what is computed from the options of a manifest, beside what is only compared and shown
OPTIONS = {
    "dataset": {"code?": {str: str}},
    "partition": {"code?": {str: str}},
    "corruption": {"code?": {str: {str: str}}},
    "run": {
        "freeze_backbone?": (bool, str),
        "bn?": str,
        "seed?": int,
        "method?": str,
        "code?": {str: {str: str}},
    },
}
FILES = {
    "dataset": ["pool.h5"],
    "partition": ["rows.h5"],
    "corruption": ["changed.h5"],
    "run": ["rounds.jsonl"],
    "scores": ["scores.csv"],
}


def shape(kind: str) -> dict:
    """The shape of a whole manifest."""
    return {
        "kind": str,
        "made_by": [str],
        "options": OPTIONS.get(kind, dict),
        "parents": {str: str},
        "files": {str: str},
        "format": int,
        "body": BODIES[kind],
    }
