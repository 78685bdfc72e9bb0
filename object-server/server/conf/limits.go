package conf

import (
	"fmt"

	"gopkg.in/ini.v1"

	"martlet/object-server/server/option"
)

// Limits are the [swift-constraints] that an object server enforces.
type Limits struct {
	FileSizeMax        int64 // bytes of an object
	MetaNameMax        int   // bytes of a metadata name, without its prefix
	MetaValueMax       int   // bytes of a metadata value
	MetaCountMax       int   // user metadata items of an object
	MetaOverallMax     int   // bytes of all names and values
	HeaderValueMax     int   // bytes of any header value
	ObjectNameMax      int   // bytes
	AccountNameMax     int   // bytes
	ContainerNameMax   int   // bytes
	headerBytesReserve int   // headers besides metadata
}

// defaultLimits are those of Swift.
func defaultLimits() Limits {
	return Limits{
		FileSizeMax: 5368709122, MetaNameMax: 128, MetaValueMax: 256, MetaCountMax: 90, MetaOverallMax: 4096,
		HeaderValueMax: 8192, ObjectNameMax: 1024, AccountNameMax: 256, ContainerNameMax: 256,
		headerBytesReserve: 56 << 10,
	}
}

// HeaderBytesMax bounds the request line and all headers of a request.
func (l *Limits) HeaderBytesMax() int {
	return l.MetaOverallMax + l.HeaderValueMax + l.headerBytesReserve
}

// read sets the limits that a section names; other names belong to other servers.
func (l *Limits) read(section *ini.Section) error {
	for name, limit := range map[string]*int{
		"max_meta_name_length": &l.MetaNameMax, "max_meta_value_length": &l.MetaValueMax,
		"max_meta_count": &l.MetaCountMax, "max_meta_overall_size": &l.MetaOverallMax,
		"max_header_size": &l.HeaderValueMax, "max_object_name_length": &l.ObjectNameMax,
		"max_account_name_length": &l.AccountNameMax, "max_container_name_length": &l.ContainerNameMax,
	} {
		if !section.HasKey(name) {
			continue
		}
		value, err := option.ParseInteger(section.Key(name).Value(), 1, 1<<24)
		if err != nil {
			return fmt.Errorf("[swift-constraints] %s: %w", name, err)
		}
		*limit = int(value)
	}
	if section.HasKey("max_file_size") {
		value, err := option.ParseInteger(section.Key("max_file_size").Value(), 1, 1<<62)
		if err != nil {
			return fmt.Errorf("[swift-constraints] max_file_size: %w", err)
		}
		l.FileSizeMax = value
	}
	return nil
}
