"""Office-Caltech-10's layout in little: four domains with ten classes, 98 photographs in all."""

from pathlib import Path

from ..sources.drawing import picture, save

CLASSES = [
    *("backpack", "bike", "calculator", "headphones", "keyboard"),
    *("laptop", "monitor", "mouse", "mug", "projector"),
]
DOMAINS = {"amazon": (32, 32), "caltech10": (24, 32), "dslr": (40, 40), "webcam": (28, 28)}  # height, width
FIRST = {"amazon": 3, "caltech10": 7, "dslr": 11, "webcam": 5}  # backpacks; so FedHEAL's test part has every class


def make(folder: Path) -> None:
    for d, (domain, (height, width)) in enumerate(DOMAINS.items()):
        for c, label in enumerate(CLASSES):
            for i in range(1, 1 + (2 if c else FIRST[domain])):
                name = f"{c + 3:03d}_{i:04d}" if domain == "caltech10" else f"frame_{i:04d}"
                image = picture(f"{domain}/{label}/{name}", c, height=height, width=width, tint=d / 4)
                grey = d < 2 and c == 3 and i == 1  # the real folders have four such files
                save(folder / domain / label / f"{name}.jpg", image[..., 0] if grey else image)
