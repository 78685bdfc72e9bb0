package devices

import (
	"testing"
	"time"

	"martlet/object-server/device"
)

func TestDeviceThatWasTakenOutIsOpenedAgain(t *testing.T) {
	f := newFixture(t, false)
	f.expect("sda", true, "in order")
	f.store.set(device.ErrOut, nil)
	f.expect("sda", false, "taken out")
	f.prolong("sda")
	f.store.set(nil, nil)
	f.expect("sda", false, "in the pause")
	if err := f.Refusal("sda"); err == nil {
		t.Error("in the pause nothing is known against the device")
	}
	f.age("sda")
	f.look() // no request has asked for the device
	if len(f.All()) != 1 {
		t.Error("not open")
	}
	f.expect("sda", true, "afterwards")
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
