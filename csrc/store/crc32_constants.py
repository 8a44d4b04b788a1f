"""Prints crc32_constants.h: every number in the CRC-32 code is a power of x modulo the polynomial.

Usage: ``python crc32_constants.py > crc32_constants.h``. A test compares the header with this output.

CRC-32 divides by P = POLYNOMIAL (bit i is the coefficient of x^i) and keeps polynomials reflected: in a word
of w bits, bit w-1-i is the coefficient of x^i; write rev_w for that.

* Byte tables. A byte that k more bytes follow adds byte * x^(32 + 8k) mod P to the register; tables are
  linear, so row k only needs the eight powers x^(32 + 8k + j), j = 0..7, the j-th for bit 7 - j of the byte.
* Folding. A carry-less product of rev_64(a) and rev_64(b) is rev_128(a * b * x). Multiplying by x^m modulo P
  therefore takes the constant rev_64(x^(m-1) mod P). A 128-bit block A = A1 * x^64 + A0 moves D bits ahead as
  A1 * x^(D+64) + A0 * x^D: one pair of constants a distance.
* Barrett reduction of 64 bits needs rev_33(P) and rev_33(floor(x^64 / P)).
* Combining needs x^(2^k) for k = 0..31; the exponents repeat because x has the order 2^32 - 1.
"""

from __future__ import annotations

POLYNOMIAL = 0x104C11DB7
SLICES = 16
FOLD_BITS = (128, 256, 384, 512, 2048)


def multiply(a: int, b: int) -> int:
    """Product of two polynomials over GF(2); bit i is the coefficient of x^i."""
    product = 0
    while b:
        product ^= a * (b & 1)
        a, b = a << 1, b >> 1
    return product


def divide(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder of polynomials over GF(2)."""
    quotient = 0
    while a.bit_length() >= b.bit_length():
        shift = a.bit_length() - b.bit_length()
        quotient |= 1 << shift
        a ^= b << shift
    return quotient, a


def power(n: int) -> int:
    """x^n mod P."""
    result, square = 1, 2
    while n:
        if n & 1:
            result = divide(multiply(result, square), POLYNOMIAL)[1]
        square = divide(multiply(square, square), POLYNOMIAL)[1]
        n >>= 1
    return result


def reflect(value: int, width: int) -> int:
    """The word of that width with bit i moved to bit width-1-i."""
    return int(f"{value:0{width}b}"[::-1], 2)


def word(value: int) -> str:
    """A C literal of 32 reflected bits."""
    return f"0x{reflect(value, 32):08x}u"


def rows() -> list[str]:
    """One macro argument list a slice."""
    lines = []
    for k in range(SLICES):
        cells = ", ".join(word(power(32 + 8 * k + j)) for j in range(8))
        lines.append(f"    ROW({cells})" + ("," if k + 1 < SLICES else ""))
    return [line + " \\" for line in lines[:-1]] + lines[-1:]


def folds() -> list[str]:
    """A pair of constants for each fold distance, and those of the last reduction."""
    lines = []
    for bits in FOLD_BITS:
        lines.append(f"#define PF_CRC32_FOLD_{bits}_HI 0x{reflect(power(bits + 63), 64):016x}ull")
        lines.append(f"#define PF_CRC32_FOLD_{bits}_LO 0x{reflect(power(bits - 1), 64):016x}ull")
    for bits in (96, 64):
        lines.append(f"#define PF_CRC32_REDUCE_{bits} 0x{reflect(power(bits - 1), 64):016x}ull")
    lines.append(f"#define PF_CRC32_BARRETT_P 0x{reflect(POLYNOMIAL, 33):09x}ull")
    lines.append(f"#define PF_CRC32_BARRETT_MU 0x{reflect(divide(1 << 64, POLYNOMIAL)[0], 33):09x}ull")
    return lines


def squares() -> list[str]:
    """x^(2^k), eight a line."""
    cells = [word(power(1 << k)) for k in range(32)]
    lines = ["    " + ", ".join(cells[i : i + 8]) for i in range(0, 32, 8)]
    return [line + ", \\" for line in lines[:-1]] + lines[-1:]


def main() -> None:
    """Print the header."""
    print("/* Powers of x modulo the CRC-32 polynomial. Written by crc32_constants.py, which explains them;")
    print(" * used by the crc32 sources only. */")
    print("#ifndef PF_STORE_CRC32_CONSTANTS_H\n#define PF_STORE_CRC32_CONSTANTS_H\n\n/* clang-format off */")
    print("#define PF_CRC32_ROWS(ROW) \\")
    print("\n".join(rows()), end="\n\n")
    print("\n".join(folds()), end="\n\n")
    print("#define PF_CRC32_SQUARES \\")
    print("\n".join(squares()))
    print("/* clang-format on */\n\n#endif")


if __name__ == "__main__":
    main()
