package versionid

import (
	"bytes"
	"testing"

	"martlet/object-server/bundle/format"
)

func TestIDsAreReadAsTheyWereMade(t *testing.T) {
	for _, text := range []string{Null, "1700000000.00001", "1700000000.00001_0000000000000002"} {
		id, err := Parse(text)
		if err != nil || Text(id) != text || IsRestored(id) || IsClient(id) == (text == Null) {
			t.Errorf("%s: %x is %s, %v", text, id, Text(id), err)
		}
	}
	for _, text := range []string{"", "x", "0", "0000000000.00000"} {
		if id, err := Parse(text); err == nil {
			t.Errorf("%q is %x", text, id)
		}
	}
}

func TestEntriesThatNoClientSeesSortAboveTheirVersion(t *testing.T) {
	at := format.Timestamp{Ticks: 170000000000001, Offset: 3}
	version, restored, hidden := Of(at), Restored(at), Hidden(at)
	if bytes.Compare(version[:], restored[:]) >= 0 || bytes.Compare(restored[:], hidden[:]) >= 0 {
		t.Errorf("%x, %x, %x", version, restored, hidden)
	}
	for _, id := range []format.VersionID{version, restored, hidden} {
		if Time(id) != at {
			t.Errorf("%x is of %v", id, Time(id))
		}
	}
	if !IsClient(version) || IsClient(restored) || IsClient(hidden) {
		t.Error("clients know the wrong ids")
	}
	if IsRestored(version) || !IsRestored(restored) || IsRestored(hidden) {
		t.Error("the wrong ids are restored")
	}
}
