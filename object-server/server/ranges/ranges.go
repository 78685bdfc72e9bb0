package ranges

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits on a Range header. A header beyond them is answered like one that cannot be satisfied.
const (
	rangesMax   = 50
	overlapsMax = 2
	unsortedMax = 8
)

// Range is the bytes from Start up to, not including, End.
type Range struct{ Start, End int64 }

// Length is the number of bytes.
func (r Range) Length() int64 { return r.End - r.Start }

// ContentRange is the header Content-Range for an object of size bytes.
func (r Range) ContentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.Start, r.End-1, size)
}

// Parse reads a Range header for an object of size bytes. ok is false for a header that is malformed and must be
// ignored; without error, no ranges means that none can be satisfied.
func Parse(header string, size int64) (ranges []Range, ok bool) {
	header = strings.ReplaceAll(header, " ", "")
	unit, list, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(unit, "bytes") {
		return nil, false
	}
	for _, spec := range strings.Split(list, ",") {
		one, valid := parseRange(spec, size)
		if !valid {
			return nil, false
		}
		if one.Length() > 0 || (size == 0 && one.Start == 0 && one.End == 0) {
			ranges = append(ranges, one)
		}
	}
	if isEgregious(ranges) {
		return nil, true
	}
	return ranges, true
}

// parseRange reads "a-b", "a-" or "-n". A range that starts behind the end of the object has a length below 0.
func parseRange(spec string, size int64) (r Range, valid bool) {
	unsatisfiable := Range{Start: 1, End: 0}
	first, last, found := strings.Cut(spec, "-")
	if !found || (first == "" && last == "") {
		return r, false
	}
	end, endOK := parseOffset(last)
	if last != "" && !endOK {
		return r, false
	}
	if first == "" {
		if end == 0 {
			return unsatisfiable, true
		}
		return Range{Start: max(size-end, 0), End: size}, true
	}
	start, startOK := parseOffset(first)
	if !startOK || (last != "" && end < start) {
		return r, false
	}
	if start >= size {
		return unsatisfiable, true
	}
	if last == "" || end >= size {
		end = size - 1
	}
	return Range{Start: start, End: end + 1}, true
}

// parseOffset reads decimal digits; a number too large becomes the largest offset.
func parseOffset(digits string) (int64, bool) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	if err != nil && digits != "" {
		return 1<<63 - 2, true
	}
	return offset, digits != ""
}

// isEgregious reports whether ranges cost far more work than any reader needs (RFC 9110, 17.15).
func isEgregious(ranges []Range) bool {
	if len(ranges) > rangesMax {
		return true
	}
	overlaps, sorted := 0, true
	for i, a := range ranges {
		for _, b := range ranges[i+1:] {
			if a.Start < b.End && b.Start < a.End {
				overlaps++
			}
		}
		if i > 0 && a.Start < ranges[i-1].Start {
			sorted = false
		}
	}
	return overlaps > overlapsMax || (!sorted && len(ranges) >= unsortedMax)
}
