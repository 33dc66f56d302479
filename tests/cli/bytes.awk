# SPDX-License-Identifier: Apache-2.0
# Numbers as octal escapes of their little-endian bytes, for printf. type: f2, f4, f8, i4, i8, u1, b1. "nan", "inf" and "-inf"
# are numbers; "for N: X" stands for N times X. Floats must be exact in 24 bits.
function out(byte) { printf "\\%03o", byte }

function put_float(x, exponent_bits, mantissa_bits,    sign, e, bias, m, i, total, b) {
    bias = 2 ^ (exponent_bits - 1) - 1
    sign = 0
    if (x == "nan") { e = 2 * bias + 1; m = 2 ^ (mantissa_bits - 1) }
    else if (x == "inf" || x == "-inf") { e = 2 * bias + 1; m = 0; sign = x == "-inf" }
    else {
        x += 0
        if (x < 0) { sign = 1; x = -x }
        if (x == 0) { e = 0; m = 0 }
        else {
            e = bias
            while (x >= 2) { x /= 2; e++ }
            while (x < 1) { x *= 2; e-- }
            m = (x - 1) * 2 ^ mantissa_bits
        }
    }
    # bytes from the lowest: the mantissa, then exponent and sign
    total = mantissa_bits
    for (; total >= 8; total -= 8) { out(m % 256); m = int(m / 256) }
    b = m + e * 2 ^ total + sign * 2 ^ (total + exponent_bits)
    for (i = total + exponent_bits + 1; i > 0; i -= 8) { out(b % 256); b = int(b / 256) }
}

function put_int(x, bytes,    i) {
    for (i = 0; i < bytes; i++) { out(((x % 256) + 256) % 256); x = (x - ((x % 256) + 256) % 256) / 256 }
}

function put(x) {
    if (type == "f4") put_float(x, 8, 23)
    else if (type == "f8") put_float(x, 11, 52)
    else if (type == "f2") put_float(x, 5, 10)
    else put_int(x, type == "i8" ? 8 : type == "i4" ? 4 : 1)
}

{
    for (i = 1; i <= NF; i++)
        if ($i == "for") {
            for (n = $(i + 1) + 0; n > 0; n--) put($(i + 2))
            i += 2
        } else put($i)
}
