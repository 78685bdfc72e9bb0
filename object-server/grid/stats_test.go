package grid

import (
	"reflect"
	"testing"
)

func TestSumsOfStatsLeaveNothingOut(t *testing.T) {
	one := Stats{Refused: map[Refusal]int64{}}
	fields := reflect.ValueOf(&one).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.CanInt() {
			f.SetInt(int64(i) + 1)
		}
	}
	for i, kind := range Refusals {
		one.Refused[kind] = int64(i) + 1
	}
	sum := one.Plus(one)
	for i := range fields.NumField() {
		if f := reflect.ValueOf(sum).Field(i); f.CanInt() && f.Int() != 2*int64(i)+2 {
			t.Errorf("%s is %d", fields.Type().Field(i).Name, f.Int())
		}
	}
	for i, kind := range Refusals {
		if sum.Refused[kind] != 2*int64(i)+2 {
			t.Errorf("%s is %d", kind, sum.Refused[kind])
		}
	}
}
