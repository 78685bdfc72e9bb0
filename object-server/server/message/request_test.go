package message

import (
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"testing"
)

func TestNamesOfFieldsAreCanonicalAndUnique(t *testing.T) {
	if len(fields) != int(fieldCount) || fieldCount > 64 {
		t.Fatalf("%d names for %d fields", len(fields), fieldCount)
	}
	for f := range fieldCount {
		if name := f.Name(); name == "" || textproto.CanonicalMIMEHeaderKey(name) != name {
			t.Errorf("field %d has the name %q", f, name)
		}
	}
}

func TestARequestOfHTTP(t *testing.T) {
	h := httptest.NewRequest("PUT", "/sda/7/AUTH_a/c/o/p%20q?x=1", nil)
	h.Header = http.Header{
		"X-Timestamp": {"1", "2"}, "Content-Type": {""}, "X-Object-Meta-A": {"a", "b"}, "X-Trans-Id": {}, "Content-Length": {"0"},
	}
	var r Request
	r.ReadHTTP(h)
	if r.Device != "sda" || !r.IsPartition || r.Partition != 7 || r.Account != "AUTH_a" || r.Container != "c" || r.Object != "o/p q" {
		t.Errorf("the path is read as %+v", r)
	}
	if r.Name != "/AUTH_a/c/o/p q" || r.FullPath() != "/sda/7/AUTH_a/c/o/p q" || r.Query != "x=1" || !r.HasLength || r.Length != 0 {
		t.Errorf("read as %+v", r)
	}
	if r.Get(Timestamp) != "1" || !r.Has(ContentType) || r.Has(TransactionID) || r.Has(Expect) {
		t.Error("a field counts by its first value, be it empty")
	}
	for name, want := range map[string]string{"X-Timestamp": "1,2", "X-Object-Meta-A": "a,b", "Content-Type": ""} {
		if got, ok := r.Lookup(name); !ok || got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if _, ok := r.Lookup("X-Trans-Id"); ok {
		t.Error("a header without a value is there")
	}
	r.Set(Timestamp, "3")
	if got, ok := r.Joined(Timestamp); !ok || got != "3" {
		t.Errorf("after Set it is %q", got)
	}
	r.Unset(Timestamp)
	if _, ok := r.Joined(Timestamp); ok || r.Get(Timestamp) != "" {
		t.Error("after Unset it is there")
	}
	r.Set(Range, "bytes=0-")
	if r.TooLong(8) != "" || r.TooLong(7) != "Range" || r.TooLong(0) == "" {
		t.Error("TooLong", r.TooLong(8), r.TooLong(7), r.TooLong(0))
	}
}

func TestPathsThatLackParts(t *testing.T) {
	for _, c := range []struct {
		path, device, name, account, container, object string
		isPartition                                    bool
	}{
		{path: "*"},
		{path: "/"},
		{path: "/sda", device: "sda"},
		{path: "/sda/7", device: "sda", isPartition: true},
		{path: "/sda/7/", device: "sda", isPartition: true, name: "/"},
		{path: "/sda/x/a/c", device: "sda", name: "/a/c", account: "a", container: "c"},
		{path: "/sda/4294967296/a//o", device: "sda", name: "/a//o", account: "a", object: "o"},
	} {
		r := Request{Path: c.path}
		r.splitPath()
		got := [...]string{r.Device, r.Name, r.Account, r.Container, r.Object}
		if got != [...]string{c.device, c.name, c.account, c.container, c.object} || r.IsPartition != c.isPartition {
			t.Errorf("%s is read as %q, %v", c.path, got, r.IsPartition)
		}
	}
}
