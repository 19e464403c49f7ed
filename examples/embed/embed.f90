! Predicts the samples of a raw file of real32 numbers: embed RUN INPUT OUTPUT
program embed
  use dlc
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none
  type(dlc_model) :: net
  type(dlc_status) :: status
  type(dlc_tensor) :: field
  real(real32), allocatable :: x(:, :, :), y(:, :, :)
  character(len=4096) :: run, input, output
  integer :: unit, bytes, width

  call get_command_argument(1, run)
  call get_command_argument(2, input)
  call get_command_argument(3, output)
  call dlc_open(net, run, status)
  if (status%code /= 0) call give_up()

  call net%describe(dlc_input, 1, field, status)
  if (status%code /= 0) call give_up()
  width = int(field%extents(1))
  inquire (file=trim(input), size=bytes)
  allocate (x(width, 1, bytes/4/width), y(width, 1, bytes/4/width))
  open (newunit=unit, file=trim(input), access='stream', form='unformatted', status='old')
  read (unit) x
  close (unit)

  call net%predict(x, y, status)
  if (status%code /= 0) call give_up()

  open (newunit=unit, file=trim(output), access='stream', form='unformatted', status='replace')
  write (unit) y
  close (unit)
  call dlc_close(net)

contains

  subroutine give_up()
    print '(a)', trim(status%message)
    stop 1
  end subroutine give_up
end program embed
