package device

import (
	"sync"

	"martlet/object-server/bundle/format"
)

// lockTable gives every object a lock of its own while a caller wants it. A
// writer holds it from looking at the old version until the new one is visible,
// so a batch never has two records of one name.
type lockTable [64]lockShard

type lockShard struct {
	mu   sync.Mutex
	held map[format.Hash]*objectLock // guarded by mu
}

type objectLock struct {
	mu    sync.Mutex
	users int // guarded by the shard
}

var objectLocks = sync.Pool{New: func() any { return new(objectLock) }}

func (t *lockTable) shard(hash format.Hash) *lockShard { return &t[hash[len(hash)-1]%64] }

func (t *lockTable) lock(hash format.Hash) {
	s := t.shard(hash)
	s.mu.Lock()
	if s.held == nil {
		s.held = make(map[format.Hash]*objectLock)
	}
	l := s.held[hash]
	if l == nil {
		l = objectLocks.Get().(*objectLock)
		s.held[hash] = l
	}
	l.users++
	s.mu.Unlock()
	l.mu.Lock()
}

func (t *lockTable) unlock(hash format.Hash) {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.held[hash]
	l.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.held, hash)
		objectLocks.Put(l)
	}
}
