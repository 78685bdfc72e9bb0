package server

import (
	"encoding/json"
	"testing"
	"time"

	"martlet/object-server/device"
)

func TestDeviceThatWasTakenOutIsOpenedAgain(t *testing.T) {
	f := newFixture(t)
	f.mustPut(objectPath, "x", "1700000000.00000")
	f.store.change(func(s *fakeStore) { s.out = device.ErrOut })
	f.expect(f.do("GET", objectPath, ""), 507, "taken out")
	f.store.change(func(s *fakeStore) { s.out = nil })
	f.expect(f.do("GET", objectPath, ""), 507, "in the pause")
	var shown []diskFigures
	if err := json.Unmarshal([]byte(f.do("GET", "/recon/unmounted", "").body), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown) != 1 || shown[0].Device != "sda" {
		t.Errorf("recon shows %+v", shown)
	}
	f.age("sda")
	f.server.devices.look() // no request has asked for the device
	if len(f.server.devices.all()) != 1 {
		t.Error("not open")
	}
	f.expect(f.do("GET", objectPath, ""), 200, "afterwards")
}

func TestDeviceThatFailsAgainAndAgainIsTriedLessOften(t *testing.T) {
	now := time.Unix(1700000000, 0)
	var o outage
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		now = now.Add(o.pause + time.Second)
		if o = o.next(now); o.pause != want*time.Second {
			t.Errorf("pause %v, want %v s", o.pause, int(want))
		}
	}
	if o = o.next(now.Add(o.pause + outageForgotten + time.Second)); o.pause != checkEvery {
		t.Errorf("after a long time in use: %v", o.pause)
	}
}
