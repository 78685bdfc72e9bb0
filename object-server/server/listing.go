package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// Headers in which a proxy or middleware gives the values that the listing shows instead of the object's own. The second
// overrides the first.
var (
	overrides       = newOverrideNames("X-Backend-Container-Update-Override-")
	systemOverrides = newOverrideNames("X-Object-Sysmeta-Container-Update-Override-")
)

// overrideNames are the headers that override the values of a row.
type overrideNames struct{ etag, contentType, size string }

func newOverrideNames(prefix string) *overrideNames {
	return &overrideNames{prefix + "Etag", prefix + "Content-Type", prefix + "Size"}
}

// updateAfterPut sends the update for a new object to the container and the expirer's queue; m is its stored metadata.
func (s *Server) updateAfterPut(x *exchange, mount *devices.Mount, m *format.Metadata, footers map[string]string,
	previous device.State,
) error {
	row := x.listed().putRow(m)
	if m.TypeTimestamp != m.Timestamp { // a newer POST overrides this PUT
		stamp := m.TypeTimestamp.String()
		row.ContentTypeTimestamp = &stamp
	}
	isOutlived := m.MetaTimestamp != m.Timestamp
	if isOutlived {
		stamp := m.MetaTimestamp.String()
		row.MetaTimestamp = &stamp
	}
	for _, names := range []*overrideNames{overrides, systemOverrides} {
		names.apply(&row, func(name string) (string, bool) {
			if value, ok := footers[name]; ok {
				return value, true
			}
			return x.in.Lookup(name)
		})
	}
	kept := keptRows(x, previous.Kept)
	x.tellRows(kept)
	all := s.containerUpdates(x, append(kept, row)...)
	if isOutlived { // that POST has updated the queue
		return s.deliver(x, mount, all)
	}
	deleteAtBefore := int64(0)
	if old := previous.Metadata; old != nil && !isExpired(old, m.Timestamp) {
		deleteAtBefore = old.DeleteAt
	}
	all = append(all, s.expirerUpdates(x, m, m.Timestamp, deleteAtBefore)...)
	return s.deliver(x, mount, all)
}

// apply replaces values of row by headers.
func (o *overrideNames) apply(row *updates.Row, header func(string) (string, bool)) {
	switch value, ok := header(o.etag); {
	case ok && strings.HasPrefix(value, ";"): // parameters for the row: who sent them does not know the ETag yet
		row.ETag += value
	case ok:
		row.ETag = value
	}
	if value, ok := header(o.contentType); ok {
		row.ContentType = value
	}
	if value, ok := header(o.size); ok {
		if size, err := strconv.ParseInt(value, 10, 64); err == nil && size >= 0 {
			row.Size = size
		}
	}
}

// updateAfterPost sends new metadata to the container. The row is that of the PUT, with the timestamps of the changes.
func (s *Server) updateAfterPost(x *exchange, mount *devices.Mount, edit *metadataEdit) error {
	m := &edit.after
	row := x.listed().storedRow(m)
	all := s.containerUpdates(x, row)
	if edit.isMetaChanged {
		all = append(all, s.expirerUpdates(x, m, edit.timestamp, edit.deleteAtBefore)...)
	}
	return s.deliver(x, mount, all)
}

// listed is an object whose rows are made.
type listed struct {
	object string
	policy int
}

func (x *exchange) listed() listed { return listed{x.in.Object, x.at.Policy} }

// putRow is the row of an object as it was put.
func (l listed) putRow(m *format.Metadata) updates.Row {
	return updates.Row{
		Name: l.object, CreatedAt: m.Timestamp.String(), Size: m.Size, ContentType: m.ContentType, ETag: m.ETag,
		PolicyIndex: l.policy, VersionID: rowVersion(m),
	}
}

// storedRow is the row of an object as it is stored, with the overridden values and the timestamps of a POST.
func (l listed) storedRow(m *format.Metadata) updates.Row {
	row := l.putRow(m)
	typeTimestamp, metaTimestamp := m.TypeTimestamp.String(), m.MetaTimestamp.String()
	row.ContentTypeTimestamp, row.MetaTimestamp = &typeTimestamp, &metaTimestamp
	for _, names := range []*overrideNames{overrides, systemOverrides} {
		names.apply(&row, func(name string) (string, bool) {
			value, ok := m.System[name]
			return value, ok && !strings.HasSuffix(name, "Content-Type")
		})
	}
	return row
}

// keptRows is the row of a null version that was kept as a version of its own; none if there is none.
func keptRows(x *exchange, kept *format.Metadata) []updates.Row {
	if kept == nil {
		return nil
	}
	return []updates.Row{x.listed().storedRow(kept)}
}

// rowsHeader holds rows as JSON, in the form that container servers take.
const rowsHeader = "X-Backend-Container-Rows"

// tellRows adds rows for the container to the answer that only an object server with the versions can know. The proxy
// sends them to the container replicas that no object server updates.
func (x *exchange) tellRows(rows []updates.Row) {
	if len(rows) == 0 {
		return
	}
	text, _ := json.Marshal(rows) // every field of a row has a form in JSON
	x.set(rowsHeader, string(text))
}

// updateAfterDelete removes an object from the listing by a row; previous is its state before.
func (s *Server) updateAfterDelete(x *exchange, mount *devices.Mount, timestamp format.Timestamp, row updates.Row,
	previous device.State,
) error {
	kept := keptRows(x, previous.Kept)
	x.tellRows(kept)
	all := s.containerUpdates(x, append(kept, row)...)
	if old := previous.Metadata; old != nil {
		all = append(all, s.expirerUpdates(x, &format.Metadata{}, timestamp, old.DeleteAt)...)
	}
	return s.deliver(x, mount, all)
}

// acquireToWrite returns the device of the request, unless it cannot take the row of a write: it has no room for one on
// the disk, nor in memory.
func (s *Server) acquireToWrite(x *exchange) (*devices.Mount, error) {
	mount, err := s.devices.Acquire(x.in.Device)
	if err == nil && mount.Pending.IsFull() {
		mount.Release()
		err = fail(http.StatusInsufficientStorage, "The device cannot save container updates.")
	}
	if err != nil {
		return nil, err
	}
	return mount, nil
}

// beginWrite is acquireToWrite for a request that writes at once; done must be called when it has delivered the rows.
func (s *Server) beginWrite(x *exchange) (mount *devices.Mount, done func(), err error) {
	mount, err = s.acquireToWrite(x)
	if err != nil {
		return nil, nil, err
	}
	end := mount.Pending.Begin()
	return mount, func() {
		end()
		mount.Release()
	}, nil
}

// deliver waits until the updates have arrived, or are durable on this device.
func (s *Server) deliver(x *exchange, mount *devices.Mount, all []updates.Update) error {
	if len(all) == 0 {
		return nil
	}
	start := time.Now()
	err := s.updater.Deliver(mount.Pending, x.at.Policy, all)
	x.updateWait = time.Since(start)
	if err != nil {
		return &failure{
			status: http.StatusInsufficientStorage, text: "The container update could not be saved.", cause: err,
		}
	}
	return nil
}

// failHalfway delivers the rows of what a request has written before err, with which it fails. Those that cannot be saved
// are kept in memory.
func (s *Server) failHalfway(x *exchange, mount *devices.Mount, err error, written []updates.Row) error {
	_ = s.deliver(x, mount, s.containerUpdates(x, written...))
	return err
}

// rowVersion is the version of the row of an object; empty for the null version.
func rowVersion(m *format.Metadata) string {
	if m.VersionID.IsNull() {
		return ""
	}
	return versionid.Text(m.VersionID)
}

// containerUpdates addresses rows to the container databases that the proxy named, usually one.
func (s *Server) containerUpdates(x *exchange, rows ...updates.Row) []updates.Update {
	partition := x.header(message.ContainerPartition)
	if partition == "" {
		return nil
	}
	hosts, devices := splitList(x.header(message.ContainerHost)), splitList(x.header(message.ContainerDevice))
	if len(hosts) != len(devices) {
		s.logger.Error("container update not sent: the number of hosts is not the number of devices", "hosts", len(hosts),
			"devices", len(devices), "path", x.in.FullPath(), "txn", x.header(message.TransactionID))
		return nil
	}
	target := updates.Target{
		Partition: partition, Account: x.in.Account, Container: x.in.Container, PolicyIndex: x.at.Policy,
	}
	if account, container, ok := x.shard(); ok {
		target.Account, target.Container = account, container
	}
	all := make([]updates.Update, 0, len(hosts)*len(rows))
	for i := range hosts {
		target.Host, target.Device = hosts[i], devices[i]
		for _, row := range rows {
			all = append(all, updates.Update{Target: target, Row: row})
		}
	}
	return all
}

// shard is the container to update if the proxy knows that the listing is sharded.
func (x *exchange) shard() (account, container string, ok bool) {
	path := x.header(message.ContainerPath)
	if quoted := x.header(message.QuotedContainerPath); quoted != "" {
		unquoted, err := url.PathUnescape(quoted)
		if err != nil {
			return "", "", false
		}
		path = unquoted
	}
	account, container, found := strings.Cut(path, "/")
	return account, container, found && account != "" && container != "" && !strings.Contains(container, "/")
}

func splitList(header string) []string {
	parts := strings.Split(header, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
