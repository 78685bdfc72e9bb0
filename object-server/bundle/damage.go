package bundle

import (
	"fmt"
	"strconv"
	"strings"

	"martlet/object-server/bundle/format"
)

// Damage is one thing in a partition that is not as it should be.
type Damage struct {
	Segment  string  `json:"segment,omitempty"` // file name; empty: a segment is missing
	Offset   int64   `json:"offset"`            // in the segment, bytes
	Length   int64   `json:"length"`            // bytes; 0: not known
	FirstLSN uint64  `json:"first_lsn,omitempty"`
	LastLSN  uint64  `json:"last_lsn,omitempty"` // records FirstLSN to LastLSN cannot be read; 0: none is lost
	Lost     []Lost  `json:"lost,omitempty"`     // what is known of them
	Unnamed  uint64  `json:"unnamed,omitempty"`  // so many more may be lost whose names are not known at all
	LargeID  LargeID `json:"large_id,omitempty"` // of the damaged large file
	Cause    string  `json:"cause"`

	// IsGap says that no header says which record it is, so that what is told of it is a guess.
	IsGap bool `json:"-"`

	// Final: what lies behind it cannot be read or understood, so Repair refuses.
	Final bool `json:"final,omitempty"`
}

// LargeID is the number of a large file, in JSON as in its name.
type LargeID uint64

// MarshalText is for JSON.
func (id LargeID) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(id)), nil }

// UnmarshalText is the inverse of MarshalText.
func (id *LargeID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*id = LargeID(n)
	return err
}

// Lost is a record that cannot be read.
type Lost struct {
	LSN  uint64      `json:"lsn"`
	Hash format.Hash `json:"hash,omitzero"`  // not there: not known
	Name string      `json:"name,omitempty"` // as its metadata say, which may be damaged too

	// IsSure says that a footer or a checkpoint has the hash: it is no guess.
	IsSure bool `json:"-"`
}

// String is one line.
func (d *Damage) String() string {
	var b strings.Builder
	if d.Segment != "" {
		fmt.Fprintf(&b, "%s offset %d: ", d.Segment, d.Offset)
	}
	if d.LastLSN > 0 {
		fmt.Fprintf(&b, "%s: ", recordNumbers(d.FirstLSN, d.LastLSN))
	}
	b.WriteString(d.Cause)
	for _, l := range d.Lost {
		switch {
		case l.Name != "":
			fmt.Fprintf(&b, "; %q", l.Name)
		case l.Hash != format.Hash{}:
			fmt.Fprintf(&b, "; hash %s", l.Hash)
		}
	}
	return b.String()
}

// recordNumbers says which records are meant.
func recordNumbers(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("record %d", first)
	}
	return fmt.Sprintf("records %d to %d", first, last)
}
