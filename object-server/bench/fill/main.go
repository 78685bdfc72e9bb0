// Command fill writes many small objects to an empty device, without a server.
// bench/background_memory.py uses it.
package main

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/vfs"
)

// writers write at once: the engine does the work of one batch for all that wait.
const writers = 1024

func main() {
	root := flag.String("device", "", "the empty directory of the device")
	suffix := flag.String("suffix", "bench", "swift_hash_path_suffix of the cluster")
	power := flag.Int("part-power", 8, "of the ring")
	objects := flag.Int("objects", 1000, "number of objects, named /AUTH_bench/rebuild/0 and so on")
	size := flag.Int("size", 16, "bytes of each")
	flag.Parse()
	if err := fill(*root, *suffix, *power, *objects, *size); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func fill(root, suffix string, power, objects, size int) error {
	d, err := device.Open(vfs.OS{}, root, device.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	body := make([]byte, size)
	sum := md5.Sum(body)
	var next atomic.Int64
	var all sync.WaitGroup
	failed := make(chan error, writers)
	for range writers {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := next.Add(1) - 1; i < int64(objects) && len(failed) == 0; i = next.Add(1) - 1 {
				name := fmt.Sprintf("/AUTH_bench/rebuild/%d", i)
				if err := put(d, name, suffix, power, body, hex.EncodeToString(sum[:])); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	all.Wait()
	if len(failed) > 0 {
		return <-failed
	}
	return d.Close()
}

// put stores one object where the ring of the cluster places it.
func put(d *device.Device, name, suffix string, power int, body []byte, etag string) error {
	hash := format.Hash(md5.Sum([]byte(name + suffix)))
	at := device.Location{Partition: binary.BigEndian.Uint32(hash[:]) >> (32 - power), Hash: hash}
	u, err := d.NewUpload(at, int64(len(body)))
	if err != nil {
		return err
	}
	defer u.Abort()
	if _, err := u.Write(body); err != nil {
		return err
	}
	_, err = u.Commit(&format.Metadata{
		Name: name, ContentType: "a/b", ETag: etag, Size: int64(len(body)),
		Timestamp: format.Timestamp{Ticks: 178000000000000},
	})
	return err
}
