package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMeasure(t *testing.T) {
	var out strings.Builder
	res, err := measure(&out, []int{3}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Rows) != 6 || res.Rows[1].Time.N != 2 || res.Rows[1].Best <= 0 {
		t.Errorf("%+v", res.Rows)
	}
	if !strings.Contains(out.String(), "knack.Load") || !strings.Contains(res.chart().SVG(), "3 skills") {
		t.Errorf("%s", &out)
	}
	if _, err := json.Marshal(res); err != nil {
		t.Error(err)
	}
}
