package server

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Limits on a Range header. A header beyond them is answered like one that cannot be satisfied.
const (
	rangesMax         = 50
	rangeOverlapsMax  = 2
	rangesUnsortedMax = 8
)

// byteRange is the bytes from start up to, not including, end.
type byteRange struct{ start, end int64 }

func (r byteRange) length() int64 { return r.end - r.start }

func (r byteRange) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", r.start, r.end-1, size)
}

// parseRanges reads a Range header for an object of size bytes. ok is false for a header that is malformed and must be
// ignored; without error, no ranges means that none can be satisfied.
func parseRanges(header string, size int64) (ranges []byteRange, ok bool) {
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
		if one.length() > 0 || (size == 0 && one.start == 0 && one.end == 0) {
			ranges = append(ranges, one)
		}
	}
	if isEgregious(ranges) {
		return nil, true
	}
	return ranges, true
}

// parseRange reads "a-b", "a-" or "-n". A range that starts behind the end of the object has a length below 0.
func parseRange(spec string, size int64) (r byteRange, valid bool) {
	unsatisfiable := byteRange{start: 1, end: 0}
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
		return byteRange{start: max(size-end, 0), end: size}, true
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
	return byteRange{start: start, end: end + 1}, true
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
func isEgregious(ranges []byteRange) bool {
	if len(ranges) > rangesMax {
		return true
	}
	overlaps, sorted := 0, true
	for i, a := range ranges {
		for _, b := range ranges[i+1:] {
			if a.start < b.end && b.start < a.end {
				overlaps++
			}
		}
		if i > 0 && a.start < ranges[i-1].start {
			sorted = false
		}
	}
	return overlaps > rangeOverlapsMax || (!sorted && len(ranges) >= rangesUnsortedMax)
}

// multiRange is a 206 with several ranges.
type multiRange struct {
	boundary    string
	contentType string // of the object
	size        int64  // of the object
	ranges      []byteRange
}

func newMultiRange(contentType string, size int64, ranges []byteRange) *multiRange {
	return &multiRange{
		boundary:    fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()), // #nosec G404 -- math/rand/v2 seeds ChaCha8 from the kernel
		contentType: contentType, size: size, ranges: ranges,
	}
}

// head precedes the bytes of a range.
func (m *multiRange) head(r byteRange) string {
	return "--" + m.boundary + "\r\nContent-Type: " + m.contentType +
		"\r\nContent-Range: " + r.contentRange(m.size) + "\r\n\r\n"
}

const partEnd = "\r\n"

// tail ends the body.
func (m *multiRange) tail() string { return "--" + m.boundary + "--" }

// length is the Content-Length of the body.
func (m *multiRange) length() int64 {
	total := int64(len(m.tail()))
	for _, r := range m.ranges {
		total += int64(len(m.head(r))) + r.length() + int64(len(partEnd))
	}
	return total
}
