package engine

// A Chart is a drawing of shares of a whole, or of values to compare. It shows the same data as the
// text of its [Reply], for front ends that can draw.
type Chart struct {
	Title string
	Whole float64 // the bars are shares of it; 0: the bars are compared with each other
	Bars  []Bar
	Note  string // shown below the bars
}

// A Bar is a value of a Chart.
type Bar struct {
	Label string
	Value float64
	Text  string // the value as text
	Free  bool   // the unused part of the whole
}
