package engine

// A Chart is a drawing: shares of a whole, or values beside each other. It has the
// same content as the text of its [Reply], for front ends that can draw.
type Chart struct {
	Title string
	Whole float64 // what the bars are shares of; 0: they are compared with each other
	Bars  []Bar
	Note  string // below the bars
}

// A Bar is a value of a Chart.
type Bar struct {
	Label string
	Value float64
	Text  string // the value as it is shown
	Free  bool   // what is left of the whole
}
