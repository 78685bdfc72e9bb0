package proof

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Layout is a table of offsets and sizes on a page about a format, in bytes.
type Layout struct {
	where  string
	fields []field
}

type field struct {
	offset, size int
	name         string // empty: reserved
}

// ReadLayout reads the first table with the columns offset, size and field behind a
// text on a page, up to a row without a size in plain digits. The name of a field is
// what stands before punctuation.
func ReadLayout(t testing.TB, page, after string) *Layout {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), after)
	if !found {
		t.Fatalf("%s has no %q", page, after)
	}
	l := &Layout{where: page + ", " + after}
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 3 {
			if len(l.fields) > 0 {
				break
			}
			continue
		}
		offset, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil { // another table, or the head of this one
			continue
		}
		size, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			break
		}
		name, _, _ := strings.Cut(strings.TrimLeft(cells[2], " *"), ",")
		if end := strings.IndexAny(name, "*;:(`"); end >= 0 {
			name = name[:end]
		}
		if name = strings.TrimSpace(name); name == "reserved" {
			name = ""
		}
		l.fields = append(l.fields, field{offset, size, name})
	}
	if len(l.fields) == 0 {
		t.Fatalf("%s: no table of offsets", l.where)
	}
	return l
}

// find is the field with a name; nil if the page has none.
func (l *Layout) find(name string) *field {
	if i := slices.IndexFunc(l.fields, func(f field) bool { return f.name == name }); i >= 0 {
		return &l.fields[i]
	}
	return nil
}

// Of are the bytes of a field in an encoding.
func (l *Layout) Of(t testing.TB, name string, encoded []byte) []byte {
	t.Helper()
	f := l.find(name)
	if f == nil {
		t.Fatalf("%s: no field %q", l.where, name)
	}
	return encoded[f.offset:][:f.size]
}

// Check demands that the page says what each byte belongs to. plain is an encoding; set
// has for each field one that differs from it in every byte of the field. derived names
// the fields that follow from others, or never change. All else is reserved, and zero.
func (l *Layout) Check(t testing.TB, plain []byte, set map[string][]byte, derived ...string) {
	t.Helper()
	end, owner := 0, make([]*field, len(plain))
	for i := range l.fields {
		f := &l.fields[i]
		if f.offset != end || f.offset+f.size > len(plain) {
			t.Fatalf("%s: %q is at offset %d, the field before ends at %d of %d", l.where, f.name, f.offset, end, len(plain))
		}
		if set[f.name] == nil && !slices.Contains(derived, f.name) && f.name != "" {
			t.Errorf("%s: nothing is known of %q", l.where, f.name)
		}
		for end = f.offset; end < f.offset+f.size; end++ {
			owner[end] = f
			if f.name == "" && plain[end] != 0 {
				t.Errorf("%s: byte %d is reserved, and %d is written", l.where, end, plain[end])
			}
		}
	}
	if end != len(plain) {
		t.Errorf("%s: %d bytes, %d are written", l.where, end, len(plain))
	}
	for name, encoded := range set {
		if l.find(name) == nil {
			t.Errorf("%s: no field %q", l.where, name)
		}
		for i, f := range owner {
			if f == nil || slices.Contains(derived, f.name) {
				continue
			}
			if isOwn := f.name == name; isOwn != (encoded[i] != plain[i]) {
				t.Errorf("%s: byte %d is of %q; with another %q it is %d, before %d", l.where, i, f.name, name, encoded[i], plain[i])
			}
		}
	}
}
