package updates

import "strconv"

// Row is one object as a container lists it. Its JSON is what an UPDATE request carries and what a pending file holds.
type Row struct {
	Name        string `json:"name"`
	CreatedAt   string `json:"created_at"` // internal timestamp of the data, or of the delete
	Size        int64  `json:"size"`
	ContentType string `json:"content_type"`
	ETag        string `json:"etag"`
	Deleted     int    `json:"deleted"` // 0 or 1
	PolicyIndex int    `json:"storage_policy_index"`
	// The timestamps of the content type and of the metadata; nil where they are those of the data.
	ContentTypeTimestamp *string `json:"ctype_timestamp"`
	MetaTimestamp        *string `json:"meta_timestamp"`
	// VersionID says which version of the name the row is about; empty for a write without versioning.
	VersionID string `json:"version_id,omitempty"`
}

// CurrentVersion is the VersionID of a row about which version is current: the ETag names it, and Deleted says that none
// older than CreatedAt is.
const CurrentVersion = "current"

// DeletedRow is the row that takes a name out of the listing.
func DeletedRow(name, timestamp string, policyIndex int) Row {
	return Row{
		Name: name, CreatedAt: timestamp, ContentType: "application/deleted", ETag: "noetag",
		Deleted: 1, PolicyIndex: policyIndex,
	}
}

// Target is one container database. An empty Host stands for every primary of the container, to be found in the ring.
type Target struct {
	Host        string `json:"host,omitempty"` // address and port of the container server
	Device      string `json:"device,omitempty"`
	Partition   string `json:"partition,omitempty"`
	Account     string `json:"account"`
	Container   string `json:"container"`
	PolicyIndex int    `json:"policy"` // of the objects; a container that is created by an update gets it
}

func (t Target) path() string {
	return "/" + t.Device + "/" + t.Partition + "/" + t.Account + "/" + t.Container
}

func (t Target) policy() string { return strconv.Itoa(t.PolicyIndex) }

// Update is one row for one database.
type Update struct {
	Target Target `json:"target"`
	Row    Row    `json:"row"`
}
