package server

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"martlet/object-server/bundle/format"
)

const ifTimestamp = "X-Backend-If-Timestamp"

func TestWritesOnConditionOfATimestamp(t *testing.T) {
	f := newFixture(t)
	f.expect(f.put(objectPath, "a", moment(1), ifTimestamp, moment(0)), 412, "PUT over nothing")
	f.mustPut(objectPath, "a", moment(1))
	f.expect(f.put(objectPath, "b", moment(2), ifTimestamp, "x"), 400, "a malformed timestamp")
	f.expect(f.put(objectPath, "b", moment(2), ifTimestamp, moment(0)), 412, "another timestamp")
	f.expect(f.put(objectPath, "b", moment(2), ifTimestamp, moment(1)), 201, "the timestamp")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", moment(3), ifTimestamp, moment(1)), 412, "POST")
	f.expect(f.do("POST", objectPath, "", "X-Timestamp", moment(3), ifTimestamp, moment(2)), 202, "POST")
	if got := f.do("HEAD", objectPath, "").header.Get("X-Backend-Data-Timestamp"); got != moment(2) {
		t.Errorf("the timestamp after a POST is %s", got)
	}
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", moment(4), ifTimestamp, moment(1)), 412, "DELETE")
	f.expect(f.do("DELETE", objectPath, "", "X-Timestamp", moment(4), ifTimestamp, moment(2)), 204, "DELETE")
	again := f.do("DELETE", objectPath, "", "X-Timestamp", moment(4), ifTimestamp, moment(2))
	f.expect(again, 404, "the same DELETE again")
	if got := again.header.Get(timestampHeader); got != moment(4) { // so the proxy knows its own write
		t.Errorf("the same DELETE again tells of %q", got)
	}
	f.expect(f.put(objectPath, "c", moment(5), ifTimestamp, moment(2)), 412, "PUT over a tombstone")
	const expiring = "1700000001.00000"
	f.expect(f.put(objectPath, "c", expiring, "X-Delete-At", "1700000010"), 201, "PUT that expires")
	f.expect(f.put(objectPath, "d", "1700000020.00000", ifTimestamp, expiring), 412, "PUT over an expired object")
}

func TestVersionsOnCondition(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(2, "two")
	f.send(409, "PUT", "one", 1, versionHeader, moment(1), ifTimestamp, moment(2)) // without it, it may come late
	f.send(412, "PUT", "three", 3, versionHeader, moment(3), "If-None-Match", "*")
	f.send(201, "PUT", "three", 3, versionHeader, moment(3), ifTimestamp, moment(2))
	marker := []string{versionHeader, moment(4), markerHeader, "true"}
	f.send(412, "DELETE", "", 4, append(marker, ifTimestamp, moment(2))...)
	f.send(204, "DELETE", "", 4, append(marker, ifTimestamp, moment(3))...)
	f.wantCurrent("", "")
	f.send(201, "PUT", "five", 5, versionHeader, moment(5), "If-None-Match", "*")
	f.send(201, "PUT", "", 6, restoreHeader, moment(2))
	f.send(412, "POST", "", 7, ifTimestamp, moment(2))
	f.send(202, "POST", "", 7, ifTimestamp, moment(6))
	f.send(412, "PUT", "seven", 7, versionHeader, moment(7), ifTimestamp, moment(2))
	f.send(201, "PUT", "seven", 7, versionHeader, moment(7), ifTimestamp, moment(6)) // when it was restored
}

// Else a write stays below a later delete marker, so the condition holds for the next one as well.
func TestVersionsOnConditionAreNotWrittenBelowADeleteMarker(t *testing.T) {
	f := newVersionsFixture(t)
	f.putVersion(2, "two")
	f.send(204, "DELETE", "", 9, versionHeader, moment(9), markerHeader, "true")
	f.send(409, "PUT", "five", 5, versionHeader, moment(5), "If-None-Match", "*")
	f.send(201, "PUT", "five", 5, versionHeader, moment(5)) // without it, it may come late
	f.wantCurrent("", "")
	f.send(201, "PUT", "ten", 10, versionHeader, moment(10), "If-None-Match", "*")
	f.send(412, "PUT", "eleven", 11, versionHeader, moment(11), "If-None-Match", "*")
}

// While a write hangs on one device, conditional writes of the same name on another device go on.
func TestConditionsOfDevicesDoNotWaitForEachOther(t *testing.T) {
	var locks conditionLocks
	hash := format.Hash{15: 7}
	hanging := locks.of("d1", hash)
	hanging.Lock()
	defer hanging.Unlock()
	if locks.of("d1", hash).TryLock() {
		t.Error("a second write of the name on the same device does not wait")
	}
	if !locks.of("d2", hash).TryLock() {
		t.Error("a write on another device waits")
	}
}

// Of writes that come at once, each on condition of what the others replace, one is done.
func TestOneOfManyConditionalWritesIsDone(t *testing.T) {
	f := newFixture(t)
	last := ""
	for round := range 20 {
		condition := []string{"If-None-Match", "*"}
		if last != "" {
			condition = []string{ifTimestamp, last}
		}
		var done atomic.Int32
		var winner atomic.Value
		var group sync.WaitGroup
		for client := range 8 {
			group.Add(1)
			go func() {
				defer group.Done()
				timestamp := moment(round*10 + client + 1)
				got := f.put(objectPath, fmt.Sprint(client), timestamp, condition...)
				switch got.status {
				case 201:
					done.Add(1)
					winner.Store(timestamp)
				case 409, 412:
				default:
					t.Errorf("status %d", got.status)
				}
			}()
		}
		group.Wait()
		if done.Load() != 1 {
			t.Fatalf("%d of the writes were done", done.Load())
		}
		last = winner.Load().(string)
	}
}
