package wire

import (
	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
)

//go:generate go tool msgp -file messages.go -o messages_gen.go -io=false -tests=false

// Names of the requests and streams.
const (
	NamePartitions = "replica.partitions"
	NameDigests    = "replica.digests"
	NameSlices     = "replica.slices"
	NameElements   = "replica.elements"
	NameSynced     = "replica.synced"
	NameDrop       = "replica.drop"
	NameDamages    = "replica.damages"
	NameHeal       = "replica.heal"
	NameHold       = "replica.hold"
	NamePromises   = "replica.promises"
	NameHint       = "replica.hint"  // from proxies
	NameHints      = "replica.hints" // the request is a Done
	NameMend       = "replica.mend"
	NameRemove     = "replica.remove" // from reconcilers
	NameExport     = "replica.export" // a stream
	NameImport     = "replica.import" // a stream
)

// PartitionsRequest asks which partitions of a policy a device has.
type PartitionsRequest struct {
	Device string `msg:"device"`
	Policy int    `msg:"policy"`
	Power  uint8  `msg:"power"` // part power of the requester's ring, see DigestsRequest
}

// Partitions are partitions of a device, in ascending order.
type Partitions struct {
	Numbers []uint32 `msg:"partitions"`
}

// Partition is one partition of a device.
type Partition struct {
	Device string `msg:"device"`
	Policy int    `msg:"policy"`
	Number uint32 `msg:"partition"`
}

// Position is a bundle.Position.
type Position struct {
	Bundle []byte `msg:"bundle"` // 16 bytes
	LSN    uint64 `msg:"lsn"`
}

// PositionOf is the inverse of Position.Engine.
func PositionOf(p bundle.Position) Position { return Position{p.Bundle[:], p.LSN} }

// Engine is the position as the engine has it. One with an identity of another length is that of no bundle.
func (p *Position) Engine() bundle.Position {
	if len(p.Bundle) != len(format.Identity{}) {
		return bundle.Position{}
	}
	return bundle.Position{Bundle: format.Identity(p.Bundle), LSN: p.LSN}
}

// DigestsRequest asks for the digests of partitions.
type DigestsRequest struct {
	Device string `msg:"device"`
	Policy int    `msg:"policy"`
	Asked  []byte `msg:"asked"` // AppendAsked
	// Power is the part power of the requester's ring. It fails if the device is of another one, or is being split: numbers of
	// partitions mean other names then. 0: not checked.
	Power uint8 `msg:"power"`
}

// Digests are the digests of the partitions that were asked for, in the same order.
type Digests struct {
	States []byte `msg:"states"` // AppendState
}

// SlicesRequest asks for the digests of the slices of Level in the slice Above of a partition.
type SlicesRequest struct {
	Partition Partition `msg:"partition"`
	Above     uint8     `msg:"above"`
	Prefix    uint32    `msg:"prefix"`
	Level     uint8     `msg:"level"`
	Horizon   uint64    `msg:"horizon"` // ticks
}

// Slices are the slices that are not empty.
type Slices struct {
	Slices []byte `msg:"slices"` // sethash.AppendSlices
}

// ElementsRequest asks what is in a slice.
type ElementsRequest struct {
	Partition Partition `msg:"partition"`
	Level     uint8     `msg:"level"`
	Prefix    uint32    `msg:"prefix"`
}

// Elements are the elements of a slice, in no order.
type Elements struct {
	Elements  []byte `msg:"elements"` // AppendElements
	IsPartial bool   `msg:"partial"`  // damage hides the newest records of some names; these are left out
}

// ExportRequest opens a stream of the records of a partition that count.
type ExportRequest struct {
	Partition  Partition `msg:"partition"`
	Since      Position  `msg:"since"`
	Peer       string    `msg:"peer"`       // only what this peer is not known to have; empty: Since counts
	Hashes     []byte    `msg:"hashes"`     // 16 bytes each; none: all names
	Tombstones bool      `msg:"tombstones"` // removals only
	// Doubtful asks for what lost records may have replaced or deleted as well. What was deleted is left out, as far as Lacking
	// tells: these peers do not have what is asked for.
	Doubtful bool           `msg:"doubtful"`
	Lacking  []ComparedPeer `msg:"lacking"`
	// Versions are ids, 16 bytes each: only records of these are wanted; none: all. Heads asks for each record without its data,
	// its table and its large object. From reconcilers.
	Versions []byte `msg:"versions"`
	Heads    bool   `msg:"heads"`
}

// ImportRequest opens a stream of records to a server: a Partition, and which versions get a later time than they have.
type ImportRequest struct {
	Device string `msg:"device"`
	Policy int    `msg:"policy"`
	Number uint32 `msg:"partition"`
	Later  []byte `msg:"later"` // LaterSize bytes each: version id 16, ticks 8 and the new offset 8; from reconcilers
}

// Partition is the one that gets the records.
func (q *ImportRequest) Partition() Partition { return Partition{q.Device, q.Policy, q.Number} }

// LaterSize is the size of an item of ImportRequest.Later.
const LaterSize = 32

// Imported ends a stream of records to a server.
type Imported struct {
	Stored  uint64 `msg:"stored"`  // records that were written
	Known   uint64 `msg:"known"`   // that count less than what is stored, or are stored already
	Refused uint64 `msg:"refused"` // that could not be stored
	Reason  string `msg:"reason"`  // of the first one that was refused
	Bundle  []byte `msg:"bundle"`  // 16 bytes: the identity of the bundle that has them now
}

// SyncedRequest tells a server which peers have the other replicas of its partitions, and what they have.
type SyncedRequest struct {
	Device string   `msg:"device"`
	Policy int      `msg:"policy"`
	Synced []Synced `msg:"synced"`
}

// Synced is what is known of one partition.
type Synced struct {
	Partition uint32    `msg:"partition"`
	Peers     []string  `msg:"peers"` // that have the other replicas
	Has       []Holding `msg:"has"`   // what some of them have
	// IsPartial says that some peers could not be asked. Nothing is forgotten then, and no tombstone reclaimed until all can be.
	IsPartial bool `msg:"partial"`
}

// Holding says that a peer has all of a partition up to a position of the server's own.
type Holding struct {
	Peer     string   `msg:"peer"`
	Position Position `msg:"position"`
}

// DropRequest asks to remove a partition that is at Position. It fails if another server relies on the partition.
type DropRequest struct {
	Partition Partition `msg:"partition"`
	Position  Position  `msg:"position"`
	Ring      int64     `msg:"ring"`     // version of the requester's ring
	Released  []Promise `msg:"released"` // to servers that promise, since these were asked for, to keep the partition
}

// HoldRequest asks to keep a partition for some time: the requester is about to remove its own copy. It fails unless the
// partition is in the bundle of this identity.
type HoldRequest struct {
	Partition Partition `msg:"partition"`
	Bundle    []byte    `msg:"bundle"` // 16 bytes
	For       string    `msg:"for"`    // the requester's device, as its peers name it
	Ring      int64     `msg:"ring"`   // version of the requester's ring
}

// PromisesRequest asks to which servers a partition was promised to be kept.
type PromisesRequest struct {
	Partition Partition `msg:"partition"`
}

// Promises are the promises to keep a partition.
type Promises struct {
	Promises []Promise `msg:"promises"`
}

// Promise is one promise to keep a partition, the last one for a device. A later one has a greater number.
type Promise struct {
	For    string `msg:"for"`
	Number uint64 `msg:"number"`
}

// HealRequest says that all that peers have of a partition was imported since its Doubt was told, and how it compares with them.
type HealRequest struct {
	Partition Partition      `msg:"partition"`
	Doubt     Position       `msg:"doubt"`
	Peers     []ComparedPeer `msg:"peers"`   // that are not in doubt themselves
	Alone     []byte         `msg:"alone"`   // 16 bytes each: names of which no peer has the same version, and none is in doubt
	Doubted   []byte         `msg:"doubted"` // the same: names of which none of Peers has it
}

// ComparedPeer is a peer under the name that it has in a Holding.
type ComparedPeer struct {
	Peer    string `msg:"peer"`
	Horizon uint64 `msg:"horizon"` // in ticks
}

// MendRequest asks to rewrite a partition without its damaged records, once peers have given what counts of them.
type MendRequest struct {
	Partition Partition `msg:"partition"`
	MayDoubt  bool      `msg:"doubt"` // all peers can be asked for what is lost with a damaged header
}

// Mended answers it.
type Mended struct {
	IsMended bool `msg:"mended"` // false: a damaged record still counts, and all stays as it was
}

// RemoveRequest asks to remove versions of a name: they were moved to another policy.
type RemoveRequest struct {
	Partition Partition `msg:"partition"`
	Hash      []byte    `msg:"hash"`     // 16 bytes
	Name      string    `msg:"name"`     // of the object: /account/container/object
	Versions  []byte    `msg:"versions"` // RemovalSize bytes each: version id 16, ticks 8 and offset 8 of the removal
	// Posted are the times of metadata and content type that the other policy has of each version, PostedSize bytes each: ticks 8
	// and offset 8 of both. A version with a later one stays. Empty: these are not compared.
	Posted []byte `msg:"posted"`
}

// RemovalSize is the size of an item of RemoveRequest.Versions.
const RemovalSize = 32

// PostedSize is the size of an item of RemoveRequest.Posted.
const PostedSize = 32

// Removed answers it.
type Removed struct {
	Locked int `msg:"locked"` // versions that stay, because they are locked
	Posted int `msg:"posted"` // versions that stay, because they got a POST that was not moved
}

// Damaged is a partition with damage.
type Damaged struct {
	Partition uint32   `msg:"partition"`
	Hashes    []byte   `msg:"hashes"` // 16 bytes each: names with a damaged record
	Doubt     Position `msg:"doubt"`  // up to which records of unknown names are lost; LSN 0: none are
}

// Damages lists the partitions of a device that are damaged. The request is a PartitionsRequest.
type Damages struct {
	Partitions []Damaged `msg:"partitions"`
}

// Hint tells a server that it has writes of these partitions that another replica missed.
type Hint struct {
	Device     string   `msg:"device"`
	Policy     int      `msg:"policy"`
	Partitions []uint32 `msg:"partitions"`
}

// Hints are hints that a server has got, and has given to no replicator yet. None are left if there are none.
type Hints struct {
	Partitions []Partition `msg:"partitions"`
}

// Done is the answer to a request that tells nothing else.
type Done struct{}
