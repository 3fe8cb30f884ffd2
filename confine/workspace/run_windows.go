package workspace

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A group is a job object. The process starts suspended, so that it is in the job before it can
// start a child.
type group struct{ job windows.Handle }

func (g *group) start(cmd *exec.Cmd) error {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return err
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	// The commands end with this program, however it ends.
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		windows.CloseHandle(job)
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.HideWindow = true
	cmd.SysProcAttr.CreationFlags |= windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED
	if err := cmd.Start(); err != nil {
		windows.CloseHandle(job)
		return err
	}
	err = assign(job, cmd.Process.Pid)
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		windows.CloseHandle(job)
		return err
	}
	g.job = job
	return nil
}

func assign(job windows.Handle, pid int) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_SUSPEND_RESUME,
		false, uint32(pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(h)
	if err := windows.AssignProcessToJobObject(job, h); err != nil {
		return err
	}
	resume := windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")
	if status, _, _ := resume.Call(uintptr(h)); status != 0 {
		return windows.NTStatus(status)
	}
	return nil
}

func (g *group) alive(int) bool {
	var info struct {
		TotalUserTime, TotalKernelTime, ThisPeriodTotalUserTime, ThisPeriodTotalKernelTime int64
		TotalPageFaultCount, TotalProcesses, ActiveProcesses, TotalTerminatedProcesses     uint32
	}
	const basicAccounting = 1 // JobObjectBasicAccountingInformation
	err := windows.QueryInformationJobObject(g.job, basicAccounting, uintptr(unsafe.Pointer(&info)),
		uint32(unsafe.Sizeof(info)), nil)
	return err == nil && info.ActiveProcesses > 0
}

func (p *process) leader() int { return p.pid }

func (g *group) close() {
	windows.CloseHandle(g.job)
	g.job = 0
}

func (p *process) kill() {
	if p.group.job != 0 {
		windows.TerminateJobObject(p.group.job, 1)
	}
}

func exitOf(s *os.ProcessState) Exit {
	if s == nil {
		return Exit{Code: -1}
	}
	return Exit{Code: s.ExitCode()}
}

// readNow is never called: pipes have no deadlines on Windows.
func readNow(*os.File, []byte) int { return 0 }
