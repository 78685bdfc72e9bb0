package ring

import (
	"encoding/binary"
	"fmt"
	"math"
)

// assemble checks m and turns the device ids in table into rows, one a replica.
func assemble(format int, m *metadata, table []byte, order binary.ByteOrder) (*Ring, error) {
	if m.PartShift < 1 || m.PartShift > 32 {
		return nil, fmt.Errorf("%w: part_shift %d", ErrFormat, m.PartShift)
	}
	if m.DeviceBytes != 1 && m.DeviceBytes != 2 && m.DeviceBytes != 4 {
		return nil, fmt.Errorf("%w: device ids of %d bytes", ErrFormat, m.DeviceBytes)
	}
	r := &Ring{FormatVersion: format, Version: m.Version, PartShift: uint(m.PartShift), Devices: m.Devices}
	if r.NextPartPower = -1; m.NextPower != nil {
		if r.NextPartPower = *m.NextPower; r.NextPartPower != r.PartPower() && r.NextPartPower != r.PartPower()+1 || r.NextPartPower > 32 {
			return nil, fmt.Errorf("%w: part power %d, the next one %d", ErrFormat, r.PartPower(), r.NextPartPower)
		}
	}
	for id, device := range m.Devices {
		if device != nil && device.ID != id {
			return nil, fmt.Errorf("%w: device %d stands in place %d", ErrFormat, device.ID, id)
		}
	}
	rowBytes := r.PartitionCount() * m.DeviceBytes
	if len(table)%m.DeviceBytes != 0 || len(table) > replicaMax*rowBytes {
		return nil, fmt.Errorf("%w: assignments of %d bytes", ErrFormat, len(table))
	}
	assigned := 0
	for ; len(table) > 0; table = table[min(rowBytes, len(table)):] {
		row, err := r.parseRow(table[:min(rowBytes, len(table))], m.DeviceBytes, order)
		if err != nil {
			return nil, err
		}
		r.rows = append(r.rows, row)
		assigned += len(row)
	}
	r.ReplicaCount = float64(assigned) / float64(r.PartitionCount())
	// Version 1 of OpenStack Swift also counts a last row without any id, for a fraction too small for one.
	isLastRowEmpty := format == 1 && len(r.rows) > 0 && m.ReplicaCount == r.ReplicaCount+1
	if replicas := math.Ceil(m.ReplicaCount); replicas != float64(len(r.rows)) && !isLastRowEmpty {
		return nil, fmt.Errorf("%w: %v replicas announced, %d found", ErrFormat, m.ReplicaCount, len(r.rows))
	}
	return r, nil
}

func (r *Ring) parseRow(table []byte, width int, order binary.ByteOrder) ([]uint32, error) {
	row := make([]uint32, len(table)/width)
	none := uint32(1)<<(8*width-1)<<1 - 1 // the largest id of this width stands for "no device"
	for partition := range row {
		var id uint32
		switch cell := table[partition*width:]; width {
		case 1:
			id = uint32(cell[0])
		case 2:
			id = uint32(order.Uint16(cell))
		default:
			id = order.Uint32(cell)
		}
		if id == none {
			row[partition] = unassigned
			continue
		}
		if uint64(id) >= uint64(len(r.Devices)) || r.Devices[id] == nil {
			return nil, fmt.Errorf("%w: partition %d is on device %d, which does not exist", ErrFormat, partition, id)
		}
		row[partition] = id
	}
	return row, nil
}
