package device

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"martlet/object-server/bundle/format"
	"martlet/object-server/vfs"
)

// A random history of writes, clean stops, kills and power cuts, each start with
// any sync method and place of the index, never shows anything but what the model allows.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &machine{fs: vfs.NewMem("/d"), model: newModel()}
		s.start(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"put":    func(rt *rapid.T) { s.write(rt, "put") },
			"post":   func(rt *rapid.T) { s.write(rt, "post") },
			"delete": func(rt *rapid.T) { s.write(rt, "delete") },
			"compact": func(rt *rapid.T) {
				if err := s.device.Compact(); err != nil {
					rt.Fatal(err)
				}
			},
			"raise": func(rt *rapid.T) {
				if err := raiseStep(s.device); err != nil {
					rt.Fatal(err)
				}
			},
			"reopen": func(rt *rapid.T) {
				if err := s.device.Close(); err != nil {
					rt.Fatal(err)
				}
				s.start(rt)
			},
			"kill": func(rt *rapid.T) {
				old := s.device
				s.fs = s.fs.KillClone()
				s.start(rt)
				_ = old.Close() // of the file system that is left behind
			},
			"crash": func(rt *rapid.T) {
				old := s.device
				s.fs = s.fs.CrashClone(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)))
				s.start(rt)
				_ = old.Close()
			},
			"": func(rt *rapid.T) {
				if err := s.model.checkAll(s.device, true); err != nil {
					rt.Fatal(err)
				}
			},
		})
		_ = s.device.Close()
	})
}

type machine struct {
	fs     *vfs.Mem
	model  *model
	device *Device
	keptID func(format.Timestamp) format.VersionID // of the device's options
}

func (s *machine) start(rt *rapid.T) {
	o := crashOptions(rapid.SampledFrom(crashMethods).Draw(rt, "method"))
	o.IndexOnDisk, o.KeptID = rapid.Bool().Draw(rt, "index on disk"), s.keptID
	o.VersionBytes = rapid.SampledFrom([]int64{0, -1, 4 << 10}).Draw(rt, "memory of versions")
	d, err := Open(s.fs, "/d", o)
	if err != nil {
		rt.Fatal(err)
	}
	s.device = d
}

func (s *machine) write(rt *rapid.T, kind string) {
	c := change{
		kind:  kind,
		name:  rapid.SampledFrom(modelNames).Draw(rt, "name"),
		ticks: rapid.Uint64Range(1, 60).Draw(rt, "ticks"),
	}
	if err := s.model.do(s.device, c); err != nil {
		rt.Fatal(err)
	}
}
