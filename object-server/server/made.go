package server

import (
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/versions"
	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/versionid"
)

// madePage is how many versions are listed at once.
const madePage = 1000

var errLaterLost = errors.New("versions of the name may be lost")

// headMade is the metadata of a version that was made of an upload, the current one or the newest of the others. A request to
// complete an upload that is repeated may make several, which share the parts. A *device.NotFoundError is certain, and has no
// timestamp: the answer of a replica that has a version counts more than those of others.
func headMade(from devices.Store, at device.Location, upload string) (*format.Metadata, error) {
	current, err := from.Head(at)
	var gone *device.NotFoundError
	if err != nil && !errors.As(err, &gone) {
		return nil, err
	}
	if err == nil && isMadeOf(current, upload) {
		return current, nil
	}
	if err != nil || current.Versioned || !current.VersionID.IsNull() {
		if m, err := headOldMade(from, at, upload); m != nil || err != nil {
			return m, err
		}
	}
	if err == nil && current.Doubtful {
		return nil, &device.DoubtError{Cause: errLaterLost}
	}
	return nil, &device.NotFoundError{}
}

func isMadeOf(m *format.Metadata, upload string) bool {
	return upload != "" && m.System[uploadIDName] == upload
}

// headOldMade looks through the versions of a name, from the newest on; nil if none was made of the upload.
func headOldMade(from devices.Store, at device.Location, upload string) (*format.Metadata, error) {
	for after := (versions.Marker{}); ; {
		page, err := from.ListVersions(at, after, madePage)
		var gone *device.NotFoundError
		if errors.As(err, &gone) { // it never had one
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for i := range page.Versions {
			m, err := headListed(from, at, &page.Versions[i].Version)
			switch {
			case errors.As(err, &gone): // a delete marker, or it was removed meanwhile
			case err != nil:
				return nil, err
			case isMadeOf(m, upload):
				return m, nil
			}
		}
		if page.Incomplete {
			return nil, &device.DoubtError{Cause: errLaterLost}
		}
		if len(page.Versions) < madePage {
			return nil, nil
		}
		last := &page.Versions[len(page.Versions)-1]
		after = versions.Marker{Timestamp: last.Timestamp, ID: last.ID}
	}
}

// headListed is the metadata of a version that was listed. A write may have given the null version an id meanwhile.
func headListed(from devices.Store, at device.Location, v *format.Version) (*format.Metadata, error) {
	m, err := from.HeadVersion(at, v.ID)
	if v.ID.IsNull() && (err != nil || m.Timestamp != v.Timestamp) {
		return from.HeadVersion(at, versionid.OfNull(v.Timestamp))
	}
	return m, err
}
