package descriptors

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestDescriptorsAreShared(t *testing.T) {
	for _, c := range []struct{ limit, devices, clients, share int }{
		{1 << 20, 12, 1024, 87104},
		{20000, 1, 1024, 16672},
		{20000, 12, 1024, 1389},
		{1024, 4, 1024, 128}, // half for the requests
		{1024, 60, 1024, 0},
		{256, 1, 1024, 128},
	} {
		got, err := perDevice(c.limit, c.clients, c.devices)
		if got != c.share || (err != nil) != (c.share == 0) {
			t.Errorf("%+v: %d, %v", c, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "ulimit -n of 1024 is too small for 60 devices: raise it to 18688 or more") {
			t.Error(err)
		}
	}
	for wanted, want := range map[int]int{0: most, 100: 100, 1 << 30: -1} {
		log := &bytes.Buffer{}
		limit, err := raise()
		if err != nil {
			t.Fatal(err)
		}
		given, err := Share(wanted, 10, 1, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		share, _ := perDevice(limit, 10, 1)
		if want = min(want, share); want < 0 {
			want = share
		}
		if given != want || strings.Contains(log.String(), "lowered_to") != (wanted > share) {
			t.Errorf("%d became %d of %d: %s", wanted, given, limit, log.String())
		}
	}
}
