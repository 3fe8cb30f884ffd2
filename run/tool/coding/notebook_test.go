package coding

import (
	"encoding/json"
	"strings"
	"testing"
)

const notebookFixture = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# Title <b>\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 7,
   "id": "calc",
   "metadata": {"tags": ["x"],   "odd":1.50},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "1\n"
     ]
    }
   ],
   "source": [
    "print(1)"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": null,
   "id": "last",
   "metadata": {},
   "outputs": [],
   "source": []
  }
 ],
 "metadata": {
  "kernelspec": {"name": "python3",  "display_name": "Python 3"}
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`

// TestEditCells: cells are replaced, inserted and deleted by number or ID, everything else keeps its bytes, and the
// diff is one of the cells.
func TestEditCells(t *testing.T) {
	b := newFixture(t, FileOptions{}, "nb.ipynb="+notebookFixture)
	got, res := b.call(t, "edit", `{"path":"nb.ipynb","cells":[{"cell":"2","source":"x = 1 < 2\nprint(x)"},
		{"cell":1,"action":"insert","type":"markdown","source":"new"},{"cell":"last","action":"delete"}]}`)
	if want := "Changed nb.ipynb, which had 3 cells: replaced cell 2, inserted a cell after cell 1, deleted cell 3."; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	diff := res.Details.(ChangeDetails).Diff
	if want := "--- a/nb.ipynb\n+++ b/nb.ipynb\n@@ -3,10 +3,9 @@\n # Title <b>\n text\n \n+[New cell: markdown]\n+new\n+\n" +
		" [Cell 2: code]\n-print(1)\n-[Output: stream]\n-1\n-\n-[Cell 3: code]\n-\n+x = 1 < 2\n+print(x)\n"; diff != want {
		t.Errorf("diff\n%s", diff)
	}
	text := b.content(t, "nb.ipynb")
	i := strings.Index(text, `"id": "calc"`)
	before, _, _ := strings.Cut(notebookFixture, "  {\n   \"cell_type\": \"code\"")
	if !strings.HasPrefix(text, before) || i < 0 || !strings.HasSuffix(text, `"metadata": {
  "kernelspec": {"name": "python3",  "display_name": "Python 3"}
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`) || !strings.Contains(text, "1.50") || !strings.Contains(text, `  {
   "cell_type": "code",
   "execution_count": null,
   "id": "calc",`) || !strings.Contains(text, `   "outputs": [],
   "source": [
    "x = 1 < 2\n",
    "print(x)"
   ]
  }
 ],
`) {
		t.Error(text)
	}
	var nb map[string]any
	if err := json.Unmarshal([]byte(text), &nb); err != nil || len(nb["cells"].([]any)) != 3 {
		t.Errorf("%v %v", err, nb["cells"])
	}
	// Another agent's names; the notebook was changed here, so it need not be read again.
	b.want(t, "NotebookEdit", `{"notebook_path":"nb.ipynb","cell_id":"calc","new_source":"y","edit_mode":"replace"}`,
		"Changed nb.ipynb, which had 3 cells: replaced cell 3.")
	b.want(t, "NotebookEdit", `{"notebook_path":"nb.ipynb","cell_id":"cell-0","new_source":"","edit_mode":"delete"}`,
		"Changed nb.ipynb, which had 3 cells: deleted cell 1.")
	b.want(t, "NotebookEdit", `{"notebook_path":"nb.ipynb","new_source":"z","cell_type":"raw","edit_mode":"insert"}`,
		"Changed nb.ipynb, which had 2 cells: inserted a cell at the start.")
	b.want(t, "read", `{"path":"nb.ipynb"}`, "[Notebook of 3 cells; edit changes them with its field cells.]\n\n"+
		"[Cell 1: raw]\nz\n\n[Cell 2: markdown]\nnew\n\n[Cell 3: code]\ny\n")
}

// TestEditCellOutputs: outputs are kept on request, and a cell of another type has none.
func TestEditCellOutputs(t *testing.T) {
	b := newFixture(t, FileOptions{}, "nb.ipynb="+notebookFixture)
	b.call(t, "edit", `{"path":"nb.ipynb","cells":[{"cell":"2","source":"print(2)","keepOutputs":true}]}`)
	if want := strings.Replace(strings.Replace(notebookFixture, "print(1)", "print(2)", 1),
		`{"tags": ["x"],   "odd":1.50}`,
		"{\n    \"tags\": [\n     \"x\"\n    ],\n    \"odd\": 1.50\n   }", 1); b.content(t, "nb.ipynb") != want {
		t.Error(b.content(t, "nb.ipynb"))
	}
	b.call(t, "edit", `{"path":"nb.ipynb","cells":[{"cell":"2","source":"p","type":"markdown"}]}`)
	var nb struct{ Cells []map[string]any }
	if err := json.Unmarshal([]byte(b.content(t, "nb.ipynb")), &nb); err != nil {
		t.Fatal(err)
	}
	if c := nb.Cells[1]; c["outputs"] != nil || c["cell_type"] != "markdown" {
		t.Error(c)
	}
	b.call(t, "edit", `{"path":"nb.ipynb","cells":[{"cell":"2","source":"p","type":"code"}]}`)
	if text := b.content(t, "nb.ipynb"); strings.Count(text, `"outputs": []`) != 2 {
		t.Error(text)
	}
	// Line ends, a BOM, a source that is one text, and a file without lines stay as they are.
	for _, c := range [][2]string{
		{"\ufeff" + `{"cells":[{"cell_type":"code","source":"a","metadata":{}}],"nbformat":4}`,
			"\ufeff" + `{"cells":[{"cell_type":"code","source":"b","metadata":{},"outputs":[],"execution_count":null}],"nbformat":4}`},
		{"{\r\n  \"cells\": [],\r\n  \"nbformat\": 4\r\n}", ""},
	} {
		put(t, b.path("x.ipynb"), c[0])
		b.state = NewMemory()
		b.tools = Tools(b.ws, Options{State: b.state})
		in := `{"path":"x.ipynb","cells":[{"cell":"1","source":"b"}]}`
		if c[1] == "" {
			in = `{"path":"x.ipynb","cells":[{"action":"insert","type":"raw","source":"b"}]}`
			c[1] = "{\r\n  \"cells\": [\r\n    {\r\n      \"cell_type\": \"raw\",\r\n      \"metadata\": {},\r\n" +
				"      \"source\": [\r\n        \"b\"\r\n      ]\r\n    }\r\n  ],\r\n  \"nbformat\": 4\r\n}"
		}
		if got, res := b.call(t, "edit", in); res.IsError || b.content(t, "x.ipynb") != c[1] {
			t.Errorf("%s\n%q", got, b.content(t, "x.ipynb"))
		}
	}
}

// TestEditCellsErrors: what is wrong with a change of cells; the file stays.
func TestEditCellsErrors(t *testing.T) {
	b := newFixture(t, FileOptions{}, "nb.ipynb="+notebookFixture, "x.json={}", "bad.ipynb={\"cells\": [",
		`old.ipynb={"nbformat":3,"worksheets":[]}`)
	const notOne = "not a Jupyter notebook with cells (nbformat 4): use edits"
	for in, want := range map[string]string{
		`{"path":"nb.ipynb","cells":[{"cell":"4","source":"x"}]}`: `nb.ipynb: there is no cell "4": the notebook has 3 cells`,
		`{"path":"nb.ipynb","cells":[{"cell":"0","source":"x"}]}`: `nb.ipynb: there is no cell "0": the notebook has 3 cells`,
		`{"path":"nb.ipynb","cells":[{"source":"x"}]}`:            `nb.ipynb: there is no cell "": the notebook has 3 cells`,
		`{"path":"nb.ipynb","cells":[{"cell":"1","source":"x"},{"cell":"intro","action":"delete"}]}`: "nb.ipynb: cells[1]: cell 1 " +
			"is changed twice",
		`{"path":"nb.ipynb","cells":[{"cell":"1","action":"move"}]}`: `nb.ipynb: action is "move": replace, insert or delete`,
		`{"path":"nb.ipynb","cells":[{"cell":"1","type":"sql"}]}`:    `nb.ipynb: type is "sql": code, markdown or raw`,
		`{"path":"nb.ipynb","cells":[{"cell":"3"}],"edits":[{"oldText":"a","newText":"b"}]}`: "edits and cells cannot be used " +
			"together",
		`{"path":"nb.ipynb","cells":[{"cell":"3"}]}`: "nb.ipynb: the cells are as they are to become: nothing would change",
		`{"path":"x.json","cells":[{"cell":"1"}]}`:   "x.json: " + notOne,
		`{"path":"bad.ipynb","cells":[{"cell":1}]}`:  "bad.ipynb: " + notOne,
		`{"path":"old.ipynb","cells":[{"cell":1}]}`:  "old.ipynb: " + notOne,
		`{"path":"none.ipynb","cells":[{"cell":1}]}`: "Path not found: ",
		`{"path":"nb.ipynb"}`:                        "nb.ipynb: edits is empty: give at least one {oldText, newText}",
	} {
		got, _ := b.call(t, "edit", in)
		if got, _ = strings.CutPrefix(got, "error: "); !strings.HasPrefix(got, want) {
			t.Errorf("%s\n got %q\nwant %q", in, got, want)
		}
	}
	if b.content(t, "nb.ipynb") != notebookFixture {
		t.Error("the notebook changed")
	}
}
