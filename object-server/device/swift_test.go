package device

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"martlet/object-server/vfs"
)

// A device with files of OpenStack Swift says so when it is opened.
func TestSwiftFilesAreNoticed(t *testing.T) {
	for what, c := range map[string]struct {
		directories []string
		want        bool
	}{
		"no":                {nil, false},
		"no partition":      {[]string{"/d/objects", "/d/objects/tmp"}, false},
		"another directory": {[]string{"/d/objects_old", "/d/objects_old/7", "/d/objects-x", "/d/objects-x/7"}, false},
		"policy 0":          {[]string{"/d/objects", "/d/objects/7"}, true},
		"policy 2":          {[]string{"/d/objects-2", "/d/objects-2/1023"}, true},
	} {
		var log bytes.Buffer
		d := must[*Device](t)(Open(vfs.NewMem(append([]string{"/d"}, c.directories...)...), "/d",
			Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		if is := d.Stats().SwiftFiles; is != c.want || strings.Contains(log.String(), "OpenStack Swift") != c.want {
			t.Errorf("%s: %v, logged %q", what, is, log.String())
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
