"""Sources of functions that a generated module carries because PyTorch alone does not have them."""

from __future__ import annotations

__all__ = ["HELPERS"]

HELPERS: dict[str, tuple[str, str]] = {
    "torchaudio.functional.spectrogram": (
        "spectrogram",
        '''
def spectrogram(
    waveform, window, pad, n_fft, hop_length, win_length, power, normalized, center=True, pad_mode="reflect",
    onesided=True,
):
    """Short-time Fourier transform, or a power of its magnitude (None: complex)."""
    flat = F.pad(waveform, (pad, pad)).reshape(-1, waveform.shape[-1] + 2 * pad)
    y = torch.stft(
        flat, n_fft, hop_length, win_length, window, center, pad_mode, normalized == "frame_length", onesided,
        return_complex=True,
    )
    if normalized is True or normalized == "window":
        y = y / window.square().sum().sqrt()
    y = y.reshape(waveform.shape[:-1] + y.shape[1:])
    return y if power is None else y.abs() ** power
''',
    ),
    "torchaudio.functional.inverse_spectrogram": (
        "inverse_spectrogram",
        '''
def inverse_spectrogram(
    spectrogram, window, length, pad, n_fft, hop_length, win_length, normalized, center=True, pad_mode="reflect",
    onesided=True,
):
    """Signal of a complex short-time Fourier transform."""
    if normalized is True or normalized == "window":
        spectrogram = spectrogram * window.square().sum().sqrt()
    y = torch.istft(
        spectrogram.reshape((-1,) + spectrogram.shape[-2:]), n_fft, hop_length, win_length, window, center,
        normalized == "frame_length", onesided, None if length is None else length + 2 * pad,
    )
    if length is not None and pad > 0:
        y = y[:, pad:-pad]
    return y.reshape(spectrogram.shape[:-2] + y.shape[-1:])
''',
    ),
    "torch.view_as_complex": (
        "view_as_complex",
        '''
def view_as_complex(input):
    """Pairs in the last dimension as complex numbers; the converter drops what made them lie side by side."""
    return torch.view_as_complex(input.contiguous())
''',
    ),
    "aten": (
        "aten",
        '''
def aten(name, *values):
    """Operator of TorchScript with all arguments by position, those that PyTorch wants by keyword too."""
    packet = getattr(torch.ops.aten, name)
    faults = []
    for overload in sorted((getattr(packet, x) for x in packet.overloads()), key=lambda x: len(x._schema.arguments)):
        arguments = overload._schema.arguments
        if len(arguments) < len(values) or any(x.is_out for x in arguments):
            continue
        # Constants of no dimensions are numbers in a file, also among tensors.
        lists = [str(x.type) == "List[Tensor]" and isinstance(v, list) for x, v in zip(arguments, values)]
        pairs = [(x, list(map(torch.as_tensor, v)) if of else v) for x, v, of in zip(arguments, values, lists)]
        if any(str(x.type) == "bool" and type(v) is int for x, v in pairs):
            continue
        try:
            # A list that is empty by default may be None in a file.
            return overload(**{x.name: v for x, v in pairs if v is not None or not x.has_default_value()})
        except (RuntimeError, TypeError) as fault:
            faults.append(str(fault))
    raise TypeError(f"aten::{name}: " + "; ".join(faults))
''',
    ),
}
"""Name and source of what a generated module carries: functions of other packages, and a way to call operators."""
