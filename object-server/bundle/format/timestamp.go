package format

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// TicksPerSecond is the resolution of a Timestamp: one tick is 10 microseconds.
const TicksPerSecond = 100_000

// TicksMax is the latest time a Timestamp can hold, 9999999999.99999 seconds.
const TicksMax = 9_999_999_999_99999

// ErrTimestamp is returned for text that is not a timestamp.
var ErrTimestamp = errors.New("bundle: malformed timestamp")

// Timestamp orders the writes of one object: the time in ticks, then an offset
// that orders several writes made on behalf of the same moment.
// The zero Timestamp is earlier than every real one.
type Timestamp struct {
	Ticks  uint64
	Offset uint64
}

//msgp:tuple Timestamp

// ParseTimestamp reads "seconds[.fraction][_offset]": decimal seconds since
// 1970, rounded to ticks, and a hexadecimal offset of at most 16 digits.
func ParseTimestamp(s string) (Timestamp, error) {
	clock, offset, hasOffset := strings.Cut(s, "_")
	ticks, err := parseTicks(clock)
	if err != nil {
		return Timestamp{}, fmt.Errorf("%w: %q", ErrTimestamp, s)
	}
	t := Timestamp{Ticks: ticks}
	if hasOffset {
		if len(offset) == 0 || len(offset) > 16 {
			return Timestamp{}, fmt.Errorf("%w: %q", ErrTimestamp, s)
		}
		if t.Offset, err = strconv.ParseUint(offset, 16, 64); err != nil {
			return Timestamp{}, fmt.Errorf("%w: %q", ErrTimestamp, s)
		}
	}
	return t, nil
}

// parseTicks reads decimal seconds exactly, without going through a float.
func parseTicks(s string) (uint64, error) {
	whole, fraction, hasPoint := strings.Cut(s, ".")
	if whole == "" || len(whole) > 10 || (hasPoint && fraction == "") || len(fraction) > 32 {
		return 0, ErrTimestamp
	}
	for _, c := range whole + fraction {
		if c < '0' || c > '9' {
			return 0, ErrTimestamp
		}
	}
	digits := (fraction + "000000")[:6]
	n, err := strconv.ParseUint(whole+digits, 10, 64)
	if err != nil {
		return 0, err
	}
	if n = (n + 5) / 10; n > TicksMax {
		return 0, ErrTimestamp
	}
	return n, nil
}

// Compare is negative when t is earlier than u, zero when equal, else positive.
func (t Timestamp) Compare(u Timestamp) int {
	if c := cmp.Compare(t.Ticks, u.Ticks); c != 0 {
		return c
	}
	return cmp.Compare(t.Offset, u.Offset)
}

// IsZero tells whether t is the zero Timestamp, which no write carries.
func (t Timestamp) IsZero() bool { return t == Timestamp{} }

// Normal is the form clients see: ten digits, a point, five digits; no offset.
func (t Timestamp) Normal() string {
	return string(t.appendNormal(make([]byte, 0, 16)))
}

// String is the internal form: Normal, then "_" and 16 hexadecimal digits when
// the offset is not zero.
func (t Timestamp) String() string {
	b := t.appendNormal(make([]byte, 0, 33))
	if t.Offset != 0 {
		b = fmt.Appendf(b, "_%016x", t.Offset)
	}
	return string(b)
}

func (t Timestamp) appendNormal(b []byte) []byte {
	var digits [16]byte
	whole, fraction := t.Ticks/TicksPerSecond, t.Ticks%TicksPerSecond
	for i := 15; i > 10; i-- {
		digits[i], fraction = byte('0'+fraction%10), fraction/10
	}
	digits[10] = '.'
	for i := 9; i >= 0; i-- {
		digits[i], whole = byte('0'+whole%10), whole/10
	}
	return append(b, digits[:]...)
}
