"""Amplitude spectra: what is exchanged, by hand on waves."""

import math

import pytest
import torch
from tables_of_numbers import rows
from torch.testing import assert_close

from fedcli.data.transforms import normalised, to_pixels
from fedcli.methods.spectra import amplitudes, exchanged, window


def wave(mean, height, shift=0.0, side=8):
    """[1, 1, 8, 8]: a cosine of one period from left to right."""
    across = mean + height * torch.cos(2 * math.pi * torch.arange(side) / side + shift)
    return across.expand(1, 1, side, side).clone()


def test_the_square_has_the_frequencies_up_to_a_share_of_the_side():
    assert window(8, 0.0) == slice(4, 5)
    assert window(8, 0.13) == slice(3, 6)
    assert window(8, 0.5) == slice(0, 8)
    assert window(7, 0.5) == slice(0, 7)
    assert window(100, 0.01) == slice(49, 52)


def test_amplitudes_of_a_wave():
    """The mean at 0, and half the height at one period either way."""
    low_amplitudes = amplitudes(normalised(wave(0.5, 0.2)), 0.13)[0, 0]
    expected = torch.tensor(rows("0.0 0.0 0.0; 0.1 0.5 0.1; 0.0 0.0 0.0"))
    assert_close(low_amplitudes, expected, atol=1e-6, rtol=0)
    result = amplitudes(normalised(wave(0.5, 0.2)), 0.0).tolist()
    expected = [[[[pytest.approx(0.5)]]]]
    assert result == expected


@pytest.mark.parametrize("shift", [0.0, 1.0, math.pi])
def test_a_wave_takes_the_amplitudes_of_another_and_keeps_its_phase(shift):
    x = normalised(wave(0.5, 0.2, shift))
    other = amplitudes(normalised(wave(0.4, 0.3, 2.0)), 0.13)
    for mix, expected in (
        (1.0, wave(0.4, 0.3, shift)),
        (0.5, wave(0.45, 0.25, shift)),
        (0.0, wave(0.5, 0.2, shift)),
    ):
        result = to_pixels(exchanged(x, other, 0.13, mix))
        assert_close(result, expected, atol=1e-5, rtol=0)
    mean_alone = to_pixels(exchanged(x, amplitudes(normalised(wave(0.4, 0.3)), 0.0), 0.0))
    assert_close(mean_alone, wave(0.4, 0.2, shift), atol=1e-5, rtol=0)


def test_its_own_amplitudes_leave_an_image_as_it_is():
    generator = torch.Generator().manual_seed(1)
    x = normalised(torch.rand(3, 3, 9, 9, generator=generator))
    for low in (0.0, 0.2, 0.5):
        result = exchanged(x, amplitudes(x, low), low)
        assert_close(result, x, atol=1e-4, rtol=0)


def test_the_mean_alone_is_what_a_transform_makes_of_it():
    stream = torch.Generator().manual_seed(1)
    x = normalised(torch.rand(2, 3, 8, 8, generator=stream))
    other = torch.rand(1, 3, 1, 1, generator=stream)
    spectrum = torch.fft.fft2(to_pixels(x))
    spectrum[..., :1, :1] *= 0.75 + 0.25 * 64 * other / spectrum[..., :1, :1].abs()
    expected = normalised(torch.fft.ifft2(spectrum).real)
    assert_close(exchanged(x, other, 0.1, 0.25), expected, atol=1e-5, rtol=0)


def test_all_amplitudes_of_another_image_are_a_whole_spectrum():
    stream = torch.Generator().manual_seed(1)
    x, other = (normalised(torch.rand(2, 3, 8, 8, generator=stream)) for _ in range(2))
    mixed = exchanged(x, amplitudes(other, 0.5), 0.5)
    assert_close(amplitudes(mixed, 0.5), amplitudes(other, 0.5), atol=1e-5, rtol=1e-4)


def test_images_are_cut_to_what_pixels_can_be():
    other = torch.tensor([[[[0.9]]]])
    pixels = to_pixels(exchanged(normalised(wave(0.5, 0.4)), other, 0.0, cut=True))
    assert pixels.max() <= 1 + 1e-6
    expected = pytest.approx(0.5, abs=1e-5)
    assert pixels.min() == expected
